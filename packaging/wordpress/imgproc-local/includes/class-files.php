<?php
/**
 * Files of an attachment: the published one, its kept original, and the copies in a modern format.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Replaces and adds files below the uploads folder. No published address ever changes: a replaced file keeps its name,
 * and a copy has its source’s name with the extension of its format appended, after a number if another file has that
 * name.
 */
final class Imgproc_Local_Files {

	/**
	 * Suffix of a file that is being downloaded.
	 */
	const PARTIAL = '.imgproc-local-partial';

	/**
	 * Formats of copies, which are also their file extensions and the ends of their MIME types, with their names.
	 */
	const FORMATS = array(
		'webp' => 'WebP',
		'avif' => 'AVIF',
	);

	/**
	 * Folder of the kept originals, below the uploads folder.
	 */
	const ORIGINALS = 'imgproc-local-originals';

	/**
	 * Replaces the published file with the optimized one if that has fewer bytes. WordPress’s smaller sizes are not
	 * replaced. Missing ones are made first, while the published file is still the original.
	 *
	 * @param int                  $attachment_id Attachment.
	 * @param Imgproc_Local_Client $client        Client of the job.
	 * @param array                $image         Image of the job.
	 * @param array                $state         State of the attachment; changed.
	 * @return true|WP_Error
	 */
	public static function replace( $attachment_id, Imgproc_Local_Client $client, array $image, array &$state ) {
		$published = get_attached_file( $attachment_id );
		/* translators: %s: file name. */
		$refusal = new WP_Error( 'refused', sprintf( __( 'The file %s could not be replaced: the web server must be able to write it and the folder of uploads.', 'imgproc-local' ), wp_basename( $published ) ) );
		if ( ! wp_is_writable( $published ) || ! wp_is_writable( dirname( $published ) ) ) {
			return $refusal;
		}
		clearstatcache();
		if ( empty( $image['optimized_size'] ) || $image['optimized_size'] >= filesize( $published ) ) {
			return true;
		}
		require_once ABSPATH . 'wp-admin/includes/image.php';
		if ( wp_get_missing_image_subsizes( $attachment_id ) ) {
			Imgproc_Local_Queue::renew_lock();
			wp_update_image_subsizes( $attachment_id );
		}
		$partial = $published . self::PARTIAL;
		$result  = $client->download( $image['id'], 'optimized', $partial );
		if ( is_wp_error( $result ) ) {
			return $result;
		}
		$old = wp_getimagesize( $published );
		$new = wp_getimagesize( $partial );
		if ( ! $old || ! $new || $old['mime'] !== $new['mime'] || abs( $old[0] - $new[0] ) > 1 || abs( $old[1] - $new[1] ) > 1 ) {
			wp_delete_file( $partial );
			/* translators: %s: file name. */
			return new WP_Error( 'refused', sprintf( __( 'The optimized file of %s has another type or size in pixels and was not used.', 'imgproc-local' ), wp_basename( $published ) ) );
		}
		$kept = self::keep( $attachment_id, $published, $partial, $state );
		Imgproc_Local_Queue::save( $attachment_id, $state );
		if ( ! $kept || ! self::publish( $partial, $published, $published ) ) {
			wp_delete_file( $partial );
			return $refusal;
		}
		self::update_size( $attachment_id, $published );
		return true;
	}

	/**
	 * Gives a downloaded file its name, and the mode of the published file.
	 *
	 * @param string $partial   Path of the downloaded file.
	 * @param string $target    Path that it gets.
	 * @param string $published Path of the published file.
	 * @return bool
	 */
	private static function publish( $partial, $target, $published ) {
		chmod( $partial, fileperms( $published ) & 0777 ); // phpcs:ignore WordPress.WP.AlternativeFunctions.file_system_operations_chmod, Generic.PHP.ForbiddenFunctions -- WP_Filesystem may need a password.
		return rename( $partial, $target ); // phpcs:ignore WordPress.WP.AlternativeFunctions.rename_rename, Generic.PHP.ForbiddenFunctions -- atomic; WP_Filesystem deletes the old file first.
	}

	/**
	 * Adds copies of the published file and its smaller sizes in the modern format, where the copy has fewer bytes. The
	 * copy of the published file comes from the service; WordPress writes those of the smaller sizes, in WebP if it can’t
	 * write the other format.
	 *
	 * @param int                  $attachment_id Attachment.
	 * @param Imgproc_Local_Client $client        Client of the job.
	 * @param array|null           $image         Image of the job; null to make only the copies of smaller sizes.
	 * @param array                $state         State of the attachment; changed.
	 * @return true|WP_Error
	 */
	public static function add_copies( $attachment_id, Imgproc_Local_Client $client, $image, array &$state ) {
		$published = get_attached_file( $attachment_id );
		$folder    = trailingslashit( dirname( $published ) );
		$meta      = wp_get_attachment_metadata( $attachment_id, true );
		$type      = get_post_mime_type( $attachment_id );
		$format    = Imgproc_Local_Settings::get( 'format' );
		clearstatcache();
		foreach ( array_keys( $state['files'] ?? array() ) as $name ) {
			if ( '' === $format || '' === self::copy_of( $folder, $name, $state['files'] ) ) {
				wp_delete_file( $folder . $state['files'][ $name ]['copy'] );
				unset( $state['files'][ $name ] );
			}
		}

		$is_modern = $image && in_array( $image['converted_format'], array_keys( self::FORMATS ), true ); // The service’s answer becomes a file extension: allow no other.
		if ( $is_modern && 'image/' . $image['converted_format'] !== $type && ! empty( $image['converted_size'] ) && $image['converted_size'] < filesize( $published ) ) {
			$copy    = self::copy_name( $folder, wp_basename( $published ), $image['converted_format'], $state );
			$partial = $folder . $copy . self::PARTIAL;
			$result  = $client->download( $image['id'], 'converted', $partial );
			if ( is_wp_error( $result ) ) {
				return $result;
			}
			if ( filesize( $partial ) < filesize( $published ) ) { // The result may have been made anew since the job was read.
				self::publish( $partial, $folder . $copy, $published );
				self::record( $folder, wp_basename( $published ), $copy, $state );
			} else {
				wp_delete_file( $partial );
			}
		}
		if ( $image ) {
			$is_served          = '' !== self::copy_of( $folder, wp_basename( $published ), $state['files'] );
			$state['larger_as'] = $is_served || ! in_array( $type, array( 'image/jpeg', 'image/png' ), true ) ? '' : $format;
		}
		if ( '' === $format || empty( $meta['sizes'] ) || 'image/gif' === $type ) {
			return true;
		}
		$format = self::can_write( $format ) ? $format : 'webp';
		foreach ( array_unique( wp_list_pluck( $meta['sizes'], 'file' ) ) as $name ) {
			if ( wp_basename( $name ) === $name && ! isset( $state['files'][ $name ] ) && is_readable( $folder . $name ) && pathinfo( $name, PATHINFO_EXTENSION ) !== $format ) {
				Imgproc_Local_Queue::renew_lock();
				$copy = self::copy_name( $folder, $name, $format, $state );
				if ( self::encode( $folder . $name, $folder . $copy, $format ) && filesize( $folder . $copy ) < filesize( $folder . $name ) ) {
					self::record( $folder, $name, $copy, $state );
				} elseif ( file_exists( $folder . $copy ) ) {
					wp_delete_file( $folder . $copy );
				}
				Imgproc_Local_Queue::save( $attachment_id, $state ); // If PHP is ended, the next attempt skips this size.
			}
		}
		return true;
	}

	/**
	 * Whether WordPress can write a format.
	 *
	 * @param string $format One of FORMATS.
	 * @return bool
	 */
	public static function can_write( $format ) {
		return wp_image_editor_supports( array( 'mime_type' => 'image/' . $format ) );
	}

	/**
	 * Encodes a file in another format. GD can’t write a PNG with a palette as WebP.
	 *
	 * @param string $source Path of the file.
	 * @param string $target Path of the new file.
	 * @param string $format One of FORMATS.
	 * @return bool
	 */
	private static function encode( $source, $target, $format ) {
		$mime   = 'image/' . $format;
		$head   = (string) file_get_contents( $source, false, null, 0, 26 ); // phpcs:ignore WordPress.WP.AlternativeFunctions.file_get_contents_file_get_contents -- a local file.
		$editor = wp_get_image_editor( $source, array( 'output_mime_type' => $mime ) );
		if ( is_wp_error( $editor ) || ( $editor instanceof WP_Image_Editor_GD && preg_match( '/^\x89PNG.{21}\x03$/sD', $head ) ) ) {
			return false;
		}
		$saved = $editor->save( $target, $mime );
		if ( is_wp_error( $saved ) || $saved['path'] === $target ) {
			return ! is_wp_error( $saved );
		}
		wp_delete_file( $saved['path'] ); // A filter of another plugin chose another format.
		return false;
	}

	/**
	 * Name of the copy of a file, if there is one that is smaller, and the file has not changed since. A copy that is not
	 * smaller is never served.
	 *
	 * @param string $folder Folder of the files, with a slash at its end.
	 * @param string $name   Name of the file.
	 * @param array  $files  Field files of the attachment’s state: copy and bytes by the name of the source.
	 * @return string Empty if there is none.
	 */
	public static function copy_of( $folder, $name, array $files ) {
		$is_current = isset( $files[ $name ] ) && file_exists( $folder . $files[ $name ]['copy'] )
			&& file_exists( $folder . $name ) && filesize( $folder . $name ) === $files[ $name ]['bytes']
			&& filesize( $folder . $files[ $name ]['copy'] ) < $files[ $name ]['bytes'];
		return $is_current ? $files[ $name ]['copy'] : '';
	}

	/**
	 * Whether a name is one that copy_name() gives. Post meta can come from an imported file: a recorded name that leads
	 * to another folder or has another extension must not be used.
	 *
	 * @param string $copy Name of the copy.
	 * @param string $name Name of its source.
	 * @return bool
	 */
	public static function is_copy_name( $copy, $name ) {
		return wp_basename( $name ) === $name && 1 === preg_match( '/^' . preg_quote( $name, '/' ) . '(-\d+)?\.(' . implode( '|', array_keys( self::FORMATS ) ) . ')$/D', $copy );
	}

	/**
	 * Whether a file is below the uploads folder. Other files are neither sent nor replaced, whatever an attachment says.
	 *
	 * @param string $path Path of the file.
	 * @return bool
	 */
	public static function is_in_uploads( $path ) {
		$path = wp_normalize_path( $path );
		return 0 === strpos( $path, wp_normalize_path( self::base_dir() ) ) && false === strpos( $path, '../' );
	}

	/**
	 * Whether every recorded copy is there.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $state         State of the attachment.
	 * @return bool
	 */
	public static function has_all_copies( $attachment_id, array $state ) {
		$folder = trailingslashit( dirname( (string) get_attached_file( $attachment_id ) ) );
		foreach ( $state['files'] as $file ) {
			if ( ! file_exists( $folder . $file['copy'] ) ) {
				return false;
			}
		}
		return true;
	}

	/**
	 * Bytes that visitors save: the size of the original, less that of the published file or its copy if that is smaller.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $state         State of the attachment.
	 * @return int
	 */
	public static function saved_bytes( $attachment_id, array $state ) {
		clearstatcache();
		$published = get_attached_file( $attachment_id );
		$copy      = $state['files'][ wp_basename( $published ) ]['copy'] ?? '';
		$sizes     = array_map( 'filesize', array_filter( array( $published, dirname( $published ) . "/$copy" ), 'is_file' ) );
		return $sizes && is_file( $published ) ? max( 0, (int) ( $state['original_bytes'] ?? 0 ) - min( $sizes ) ) : 0;
	}

	/**
	 * Removes the copies, the partial downloads and the kept original of a file.
	 *
	 * @param string $published Path of the published file, which may be gone.
	 * @param array  $state     State of its attachment.
	 */
	public static function remove( $published, array $state ) {
		$paths = array( $published . self::PARTIAL );
		foreach ( array_keys( self::FORMATS ) as $format ) {
			$paths[] = "$published.$format" . self::PARTIAL;
		}
		foreach ( $state['files'] ?? array() as $file ) {
			$paths[] = dirname( $published ) . '/' . $file['copy'];
		}
		$paths = array_merge( $paths, array_map( array( __CLASS__, 'original_path' ), array_values( $state['originals'] ?? array() ) ) );
		foreach ( array_filter( $paths, 'is_file' ) as $path ) {
			wp_delete_file_from_directory( $path, self::base_dir() );
		}
	}

	/**
	 * Other attachments with the same file, as translation plugins make them.
	 *
	 * @param int $attachment_id Attachment.
	 * @return int[]
	 */
	public static function twins( $attachment_id ) {
		global $wpdb;
		$file = get_post_meta( $attachment_id, '_wp_attached_file', true );
		if ( ! is_string( $file ) || '' === $file ) {
			return array();
		}
		$ids = $wpdb->get_col( // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- WP_Query would load whole posts.
			$wpdb->prepare( "SELECT post_id FROM $wpdb->postmeta WHERE meta_key = '_wp_attached_file' AND meta_value = %s AND post_id <> %d", $file, $attachment_id )
		);
		return array_map( 'intval', $ids );
	}

	/**
	 * Updates the size in bytes in the attachment’s metadata.
	 *
	 * @param int    $attachment_id Attachment.
	 * @param string $published     Path of the published file.
	 */
	public static function update_size( $attachment_id, $published ) {
		clearstatcache();
		$meta = wp_get_attachment_metadata( $attachment_id, true );
		if ( is_array( $meta ) ) {
			$meta['filesize'] = filesize( $published );
			wp_update_attachment_metadata( $attachment_id, $meta );
		}
	}

	/**
	 * Path of the original that was kept when the published file was replaced.
	 *
	 * @param string $published Path of the published file.
	 * @param array  $state     State of the attachment.
	 * @return string Empty if there is none, or if another file was published since.
	 */
	public static function original( $published, array $state ) {
		$name = wp_basename( $published );
		if ( ! isset( $state['originals'][ $name ] ) || ! is_readable( $published ) ) {
			return '';
		}
		$kept = $state['originals'][ $name ];
		$path = self::original_path( $kept );
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
	private static function keep( $attachment_id, $published, $replacement, array &$state ) {
		if ( ! Imgproc_Local_Settings::get( 'keep_originals' ) || wp_get_original_image_path( $attachment_id ) !== $published ) {
			return true;
		}
		$name     = wp_basename( $published );
		$relative = self::ORIGINALS . '/' . _wp_relative_upload_path( $published );
		if ( '' === self::original( $published, $state ) ) {
			$path = self::base_dir() . $relative;
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
	 */
	public static function restore( $attachment_id, array $state ) {
		$published = get_attached_file( $attachment_id );
		$kept      = self::original( $published, $state );
		if ( '' !== $kept && rename( $kept, $published ) ) { // phpcs:ignore WordPress.WP.AlternativeFunctions.rename_rename, Generic.PHP.ForbiddenFunctions -- atomic.
			self::update_size( $attachment_id, $published );
		}
	}

	/**
	 * Removes the empty folders below the folder of the kept originals, and that folder itself if it is empty then.
	 */
	public static function remove_empty_folders() {
		$folder = self::base_dir() . self::ORIGINALS;
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
	 * Path of a kept original. Post meta can come from an imported file: a path outside the folder must not be used.
	 *
	 * @param array $kept Record of the original in the state of its attachment.
	 * @return string Empty if it is not in the folder.
	 */
	private static function original_path( array $kept ) {
		$is_inside = 0 === strpos( $kept['path'], self::ORIGINALS . '/' ) && 0 === validate_file( $kept['path'] );
		return $is_inside ? self::base_dir() . $kept['path'] : '';
	}

	/**
	 * Name for a copy: that of the recorded copy in this format, else one that no file has yet.
	 *
	 * @param string $folder Folder of the files.
	 * @param string $name   Name of the source.
	 * @param string $format One of FORMATS.
	 * @param array  $state  State of the attachment.
	 * @return string
	 */
	private static function copy_name( $folder, $name, $format, array $state ) {
		if ( isset( $state['files'][ $name ] ) && pathinfo( $state['files'][ $name ]['copy'], PATHINFO_EXTENSION ) === $format ) {
			return $state['files'][ $name ]['copy'];
		}
		$copy   = "$name.$format";
		$number = 1;
		while ( file_exists( $folder . $copy ) ) {
			$copy = "$name-$number.$format";
			++$number;
		}
		return $copy;
	}

	/**
	 * Records a copy with the bytes of its source, and removes the copy recorded before if it has another name.
	 *
	 * @param string $folder Folder of the files.
	 * @param string $name   Name of the source.
	 * @param string $copy   Name of the copy.
	 * @param array  $state  State of the attachment; changed.
	 */
	private static function record( $folder, $name, $copy, array &$state ) {
		clearstatcache();
		if ( isset( $state['files'][ $name ] ) && $state['files'][ $name ]['copy'] !== $copy ) {
			wp_delete_file( $folder . $state['files'][ $name ]['copy'] );
		}
		$state['files'][ $name ] = array(
			'copy'  => $copy,
			'bytes' => (int) filesize( $folder . $name ),
		);
	}

	/**
	 * Uploads folder, with a slash at its end.
	 *
	 * @return string
	 */
	private static function base_dir() {
		$uploads = wp_get_upload_dir();
		return trailingslashit( $uploads['basedir'] );
	}
}
