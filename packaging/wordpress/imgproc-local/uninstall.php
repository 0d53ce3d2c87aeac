<?php
/**
 * Removes what the plugin has stored.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;
defined( 'WP_UNINSTALL_PLUGIN' ) || exit;

foreach ( array( 'settings', 'files', 'queue', 'worker', 'attachment' ) as $imgproc_local_part ) {
	require_once __DIR__ . "/includes/class-$imgproc_local_part.php";
}

/**
 * Removes options, post meta and cron events from one site. If the settings say so, also removes its copies in modern formats
 * and puts kept originals back.
 */
function imgproc_local_uninstall_site() {
	global $wpdb;
	wp_clear_scheduled_hook( Imgproc_Local_Worker::CRON );

	if ( Imgproc_Local_Settings::get( 'remove_files' ) ) {
		$last = 0;
		do {
			$ids = $wpdb->get_col( $wpdb->prepare( "SELECT post_id FROM $wpdb->postmeta WHERE meta_key = %s AND post_id > %d ORDER BY post_id LIMIT 200", Imgproc_Local_Queue::META, $last ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- WP_Query would load whole posts.
			foreach ( $ids as $id ) {
				$last  = (int) $id;
				$state = Imgproc_Local_Queue::state( $last );
				Imgproc_Local_Files::restore( $last, $state );
				Imgproc_Local_Files::remove( get_attached_file( $last ), $state );
				clean_post_cache( $last );
			}
		} while ( $ids );
		Imgproc_Local_Files::remove_empty_folders();
	}
	array_map( 'delete_post_meta_by_key', array_merge( Imgproc_Local_Queue::ALL_META, array( Imgproc_Local_Attachment::DECORATIVE ) ) );
	array_map( 'delete_option', array( Imgproc_Local_Settings::OPTION, Imgproc_Local_Queue::PAUSE, Imgproc_Local_Worker::UNANSWERED, Imgproc_Local_Queue::LOCK ) );
	delete_transient( Imgproc_Local_Settings::KNOWN );
}

Imgproc_Local_Worker::on_sites( true, 'imgproc_local_uninstall_site' );
