<?php
/**
 * Originals that are kept when the published file is replaced.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Keeps originals below the uploads folder, finds them again, and puts them back.
 */
final class Imgproc_Local_Originals {

	/**
	 * Folder of the kept originals, below the uploads folder.
	 */
	const FOLDER = 'imgproc-local-originals';

	/**
	 * Path of the original that was kept when the published file was replaced.
	 *
	 * @param string $published Path of the published file.
	 * @param array  $state     State of the attachment.
	 * @return string Empty if there is none, or if another file was published since.
	 */
	public static function find( $published, array $state ) {
		$name = wp_basename( $published );
		if ( ! isset( $state['originals'][ $name ] ) || ! is_readable( $published ) ) {
			return '';
		}
		$kept = $state['originals'][ $name ];
		$path = self::path( $kept );
		return '' !== $path && is_readable( $path ) && hash_file( 'sha256', $published ) === $kept['replaced_by'] ? $path : '';
	}

	/**
	 * Keeps the published file before it is replaced, if the settings say so. A file that WordPress has scaled is not
	 * kept: WordPress has its original.
	 *
	 * @param int    $attachment_id Attachment.
	 * @param string $published     Path of the published file.
	 * @param string $replacement   Path of the file that will replace it.
	 * @param array  $state         State of the attachment; changed.
	 * @return bool Whether the file may be replaced.
	 */
	public static function keep( $attachment_id, $published, $replacement, array &$state ) {
		if ( ! Imgproc_Local_Settings::get( 'keep_originals' ) || wp_get_original_image_path( $attachment_id ) !== $published ) {
			return true;
		}
		$name     = wp_basename( $published );
		$relative = self::FOLDER . '/' . _wp_relative_upload_path( $published );
		if ( '' === self::find( $published, $state ) ) {
			$path = Imgproc_Local_Files::base_dir() . $relative;
			if ( ! wp_mkdir_p( dirname( $path ) ) || ! copy( $published, $path ) ) {
				return false;
			}
		}
		$state['originals'][ $name ] = array(
			'path'        => $relative,
			'replaced_by' => hash_file( 'sha256', $replacement ),
		);
		return true;
	}

	/**
	 * Puts the kept original back in place of the published file.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $state         State of the attachment.
	 * @return bool Whether it was put back.
	 */
	public static function restore( $attachment_id, array $state ) {
		$published = get_attached_file( $attachment_id );
		$kept      = self::find( $published, $state );
		if ( '' === $kept || ! rename( $kept, $published ) ) { // phpcs:ignore WordPress.WP.AlternativeFunctions.rename_rename -- atomic.
			return false;
		}
		Imgproc_Local_Files::update_size( $attachment_id, $published );
		return true;
	}

	/**
	 * Removes the empty folders below the folder of the kept originals, and that folder itself if it is empty then.
	 */
	public static function remove_empty_folders() {
		$folder = Imgproc_Local_Files::base_dir() . self::FOLDER;
		if ( ! is_dir( $folder ) ) {
			return;
		}
		$inside = new RecursiveIteratorIterator( new RecursiveDirectoryIterator( $folder, FilesystemIterator::SKIP_DOTS ), RecursiveIteratorIterator::CHILD_FIRST );
		foreach ( $inside as $path ) {
			if ( $path->isDir() ) {
				@rmdir( $path->getPathname() ); // phpcs:ignore -- is meant to fail if the folder is not empty.
			}
		}
		@rmdir( $folder ); // phpcs:ignore -- see above.
	}

	/**
	 * Removes the kept originals of an attachment.
	 *
	 * @param array $state State of the attachment.
	 */
	public static function remove( array $state ) {
		foreach ( isset( $state['originals'] ) ? $state['originals'] : array() as $kept ) {
			$path = self::path( $kept );
			if ( '' !== $path ) {
				wp_delete_file_from_directory( $path, Imgproc_Local_Files::base_dir() . self::FOLDER );
			}
		}
	}

	/**
	 * Path of a kept original. Post meta can come from an imported file: a path outside the folder must not be used.
	 *
	 * @param array $kept Record of the original in the state of its attachment.
	 * @return string Empty if it is not in the folder.
	 */
	private static function path( array $kept ) {
		$is_inside = 0 === strpos( $kept['path'], self::FOLDER . '/' ) && 0 === validate_file( $kept['path'] );
		return $is_inside ? Imgproc_Local_Files::base_dir() . $kept['path'] : '';
	}
}
