<?php
/**
 * Plugin Name:       Imgproc Local
 * Description:       Writes alt texts, makes image files smaller and serves WebP or AVIF, with an imgproc-local service on your own machine.
 * Version:           0.1.0
 * Requires at least: 6.0
 * Requires PHP:      7.4
 * License:           GPL-2.0-or-later
 * License URI:       https://www.gnu.org/licenses/gpl-2.0.html
 * Text Domain:       imgproc-local
 * Domain Path:       /languages
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

define( 'IMGPROC_LOCAL_VERSION', '0.1.0' );
define( 'IMGPROC_LOCAL_FILE', __FILE__ );
define( 'IMGPROC_LOCAL_DIR', plugin_dir_path( __FILE__ ) );
define( 'IMGPROC_LOCAL_URL', plugin_dir_url( __FILE__ ) );

foreach ( array( 'settings', 'settings-page', 'client', 'source', 'encoder', 'files', 'originals', 'attachment', 'lock', 'queue', 'worker', 'background', 'display', 'images', 'cells', 'library', 'panel', 'failures', 'bulk', 'notices', 'cli' ) as $imgproc_local_part ) {
	require_once IMGPROC_LOCAL_DIR . "includes/class-$imgproc_local_part.php";
}
unset( $imgproc_local_part );

register_activation_hook( __FILE__, array( 'Imgproc_Local_Background', 'activate' ) );
register_deactivation_hook( __FILE__, array( 'Imgproc_Local_Background', 'deactivate' ) );

/**
 * Registers the hooks of every part.
 */
function imgproc_local_init() {
	foreach ( array( 'Settings_Page', 'Attachment', 'Background', 'Display', 'Cells', 'Library', 'Panel', 'Bulk', 'Notices', 'CLI' ) as $part ) {
		call_user_func( array( "Imgproc_Local_$part", 'init' ) );
	}
}
add_action( 'plugins_loaded', 'imgproc_local_init' );
