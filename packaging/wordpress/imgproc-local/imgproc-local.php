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

foreach ( array( 'settings', 'client', 'queue', 'attachment', 'files', 'worker', 'display', 'library', 'bulk', 'cli' ) as $imgproc_local_part ) {
	require_once IMGPROC_LOCAL_DIR . "includes/class-$imgproc_local_part.php";
}
unset( $imgproc_local_part );

register_activation_hook( __FILE__, array( 'Imgproc_Local_Worker', 'activate' ) );
register_deactivation_hook( __FILE__, array( 'Imgproc_Local_Worker', 'deactivate' ) );

/**
 * Loads a script of the plugin, with its translations and the style of the plugin.
 *
 * @param string   $name         Name of the file.
 * @param string[] $dependencies Scripts that it needs besides those that all need.
 * @param mixed    $data         What the script finds in imgprocLocal, by its name.
 */
function imgproc_local_enqueue( $name, array $dependencies = array(), $data = null ) {
	$handle = 'imgproc-local-' . $name;
	wp_enqueue_style( 'imgproc-local', IMGPROC_LOCAL_URL . 'assets/library.css', array(), IMGPROC_LOCAL_VERSION );
	wp_enqueue_script( $handle, IMGPROC_LOCAL_URL . "assets/$name.js", array_merge( array( 'wp-a11y', 'wp-api-fetch', 'wp-i18n' ), $dependencies ), IMGPROC_LOCAL_VERSION, true );
	wp_set_script_translations( $handle, 'imgproc-local', IMGPROC_LOCAL_DIR . 'languages' );
	wp_add_inline_script( $handle, sprintf( 'window.imgprocLocal = { ...window.imgprocLocal, %s: %s };', $name, wp_json_encode( $data ) ), 'before' );
}

/**
 * Registers a route of the plugin.
 *
 * @param string   $path       Path below the namespace.
 * @param string   $method     HTTP method.
 * @param callable $callback   What answers a request.
 * @param callable $permission Whether the user may send a request.
 * @param array    $args       Schemas of the parameters.
 */
function imgproc_local_route( $path, $method, callable $callback, callable $permission, array $args = array() ) {
	$route = array(
		'methods'             => $method,
		'callback'            => $callback,
		'permission_callback' => $permission,
		'args'                => $args,
	);
	register_rest_route( 'imgproc-local/v1', $path, $route );
}

/**
 * Registers the hooks of every part.
 */
function imgproc_local_init() {
	foreach ( array( 'Settings', 'Attachment', 'Worker', 'Display', 'Library', 'Bulk', 'CLI' ) as $part ) {
		call_user_func( array( "Imgproc_Local_$part", 'init' ) );
	}
}
add_action( 'plugins_loaded', 'imgproc_local_init' );
