<?php
/**
 * Files of an attachment: the published one, and the copies in a modern format.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Replaces and adds files below the uploads folder. No published address ever changes: a replaced file keeps its name,
 * and a copy has its source’s name with .webp or .avif appended, after a number if another file has that name.
 */
final class Imgproc_Local_Files {

	/**
	 * Suffix of a file that is being downloaded.
	 */
	const PARTIAL = '.imgproc-local-partial';

	/**
	 * Formats of copies, which are also their file extensions.
	 */
	const FORMATS = array( 'webp', 'avif' );

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
		if ( ! is_writable( $published ) || ! wp_is_writable( dirname( $published ) ) ) { // phpcs:ignore WordPress.WP.AlternativeFunctions.file_system_operations_is_writable -- asks about one file.
			/* translators: %s: file name. */
			return new WP_Error( 'refused', sprintf( __( 'The file %s can’t be replaced, because the web server may not write it.', 'imgproc-local' ), wp_basename( $published ) ) );
		}
		clearstatcache();
		if ( empty( $image['optimized_size'] ) || $image['optimized_size'] >= filesize( $published ) ) {
			return true;
		}
		require_once ABSPATH . 'wp-admin/includes/image.php';
		if ( wp_get_missing_image_subsizes( $attachment_id ) ) {
			Imgproc_Local_Lock::renew_held();
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
		if ( ! Imgproc_Local_Originals::keep( $attachment_id, $published, $partial, $state ) ) {
			wp_delete_file( $partial );
			/* translators: %s: file name. */
			return new WP_Error( 'refused', sprintf( __( 'The original of %s could not be kept, so that the file was not replaced.', 'imgproc-local' ), wp_basename( $published ) ) );
		}
		Imgproc_Local_Queue::save( $attachment_id, $state );
		chmod( $partial, fileperms( $published ) & 0777 ); // phpcs:ignore WordPress.WP.AlternativeFunctions.file_system_operations_chmod -- the mode of the file that is replaced.
		if ( ! rename( $partial, $published ) ) { // phpcs:ignore WordPress.WP.AlternativeFunctions.rename_rename -- atomic; WP_Filesystem deletes the old file first.
			wp_delete_file( $partial );
			/* translators: %s: file name. */
			return new WP_Error( 'refused', sprintf( __( 'The file %s could not be replaced.', 'imgproc-local' ), wp_basename( $published ) ) );
		}
		self::update_size( $attachment_id, $published );
		return true;
	}

	/**
	 * Adds copies of the published file and its smaller sizes in the modern format, where the copy has fewer bytes. The
	 * copy of the published file comes from the service; WordPress writes those of the smaller sizes, in WebP if it can’t
	 * write AVIF.
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
		self::delete_stale( $folder, $state );

		$is_modern = $image && in_array( $image['converted_format'], self::FORMATS, true ); // The service’s answer becomes a file extension: allow no other.
		if ( $is_modern && 'image/' . $image['converted_format'] !== get_post_mime_type( $attachment_id ) && ! empty( $image['converted_size'] ) && $image['converted_size'] < filesize( $published ) ) {
			$copy    = self::copy_name( $folder, wp_basename( $published ), $image['converted_format'], $state );
			$partial = $folder . $copy . self::PARTIAL;
			$result  = $client->download( $image['id'], 'converted', $partial );
			if ( is_wp_error( $result ) ) {
				return $result;
			}
			chmod( $partial, fileperms( $published ) & 0777 ); // phpcs:ignore WordPress.WP.AlternativeFunctions.file_system_operations_chmod -- the mode of the published file.
			rename( $partial, $folder . $copy ); // phpcs:ignore WordPress.WP.AlternativeFunctions.rename_rename -- atomic.
			self::record( $folder, wp_basename( $published ), $copy, $state );
		}
		$format = Imgproc_Local_Settings::get( 'format' );
		if ( '' === $format || empty( $meta['sizes'] ) || 'image/gif' === get_post_mime_type( $attachment_id ) ) {
			return true;
		}
		$format = Imgproc_Local_Encoder::can_write( $format ) ? $format : 'webp';
		foreach ( array_unique( wp_list_pluck( $meta['sizes'], 'file' ) ) as $name ) {
			if ( wp_basename( $name ) === $name && ! isset( $state['files'][ $name ] ) && is_readable( $folder . $name ) && pathinfo( $name, PATHINFO_EXTENSION ) !== $format ) {
				Imgproc_Local_Lock::renew_held();
				self::write_copy( $folder, $name, $format, $state );
				Imgproc_Local_Queue::save( $attachment_id, $state ); // If PHP is ended, the next attempt skips this size.
			}
		}
		return true;
	}

	/**
	 * Name of the copy to send instead of a file, if the browser accepts it and the file has not changed since.
	 *
	 * @param string $folder   Folder of the attachment’s files, with a slash at its end.
	 * @param string $name     Name of the source.
	 * @param array  $files    Field files of the attachment’s state: copy and bytes by the name of the source.
	 * @param array  $accepted MIME types that the browser accepts.
	 * @return string Name of the copy; empty if the source has to be sent.
	 */
	public static function copy_for( $folder, $name, array $files, array $accepted ) {
		if ( ! isset( $files[ $name ] ) ) {
			return '';
		}
		$copy = $files[ $name ]['copy'];
		if ( ! in_array( 'image/' . pathinfo( $copy, PATHINFO_EXTENSION ), $accepted, true ) || ! file_exists( $folder . $copy ) ) {
			return '';
		}
		return file_exists( $folder . $name ) && filesize( $folder . $name ) === $files[ $name ]['bytes'] ? $copy : '';
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
		return wp_basename( $name ) === $name && 1 === preg_match( '/^' . preg_quote( $name, '/' ) . '(-\d+)?\.(webp|avif)$/D', $copy );
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
		if ( empty( $state['original_bytes'] ) || ! file_exists( $published ) ) {
			return 0;
		}
		$now  = filesize( $published );
		$name = wp_basename( $published );
		if ( isset( $state['files'][ $name ] ) && file_exists( dirname( $published ) . '/' . $state['files'][ $name ]['copy'] ) ) {
			$now = min( $now, filesize( dirname( $published ) . '/' . $state['files'][ $name ]['copy'] ) );
		}
		return max( 0, (int) $state['original_bytes'] - $now );
	}

	/**
	 * Removes the copies and the kept original of an attachment, unless another attachment has the same file.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $state         State of the attachment.
	 * @param bool  $even_shared   Remove them even if another attachment has the same file.
	 */
	public static function remove( $attachment_id, array $state, $even_shared = false ) {
		if ( $even_shared || ! self::twins( $attachment_id ) ) {
			self::remove_of( get_attached_file( $attachment_id ), $state );
		}
	}

	/**
	 * Removes the copies, the partial downloads and the kept original of a file.
	 *
	 * @param string $published Path of the published file, which may be gone.
	 * @param array  $state     State of its attachment.
	 */
	public static function remove_of( $published, array $state ) {
		$paths = array( $published . self::PARTIAL );
		foreach ( self::FORMATS as $format ) {
			$paths[] = "$published.$format" . self::PARTIAL;
		}
		foreach ( isset( $state['files'] ) ? $state['files'] : array() as $file ) {
			$paths[] = dirname( $published ) . '/' . $file['copy'];
		}
		foreach ( array_filter( $paths, 'file_exists' ) as $path ) {
			wp_delete_file_from_directory( $path, self::base_dir() );
		}
		Imgproc_Local_Originals::remove( $state );
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
	 * Writes a copy of one size, and removes it again unless it has fewer bytes than its source.
	 *
	 * @param string $folder Folder of the files.
	 * @param string $name   Name of the source.
	 * @param string $format webp or avif.
	 * @param array  $state  State of the attachment; changed.
	 */
	private static function write_copy( $folder, $name, $format, array &$state ) {
		$copy = self::copy_name( $folder, $name, $format, $state );
		if ( Imgproc_Local_Encoder::encode( $folder . $name, $folder . $copy, $format ) && filesize( $folder . $copy ) < filesize( $folder . $name ) ) {
			self::record( $folder, $name, $copy, $state );
		} elseif ( file_exists( $folder . $copy ) ) {
			wp_delete_file( $folder . $copy );
		}
	}

	/**
	 * Name for a copy: that of the recorded copy in this format, else one that no file has yet.
	 *
	 * @param string $folder Folder of the files.
	 * @param string $name   Name of the source.
	 * @param string $format webp or avif.
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
	 * Deletes copies whose source is gone or has changed, and all copies if the settings ask for no modern format.
	 *
	 * @param string $folder Folder of the files.
	 * @param array  $state  State of the attachment; changed.
	 */
	private static function delete_stale( $folder, array &$state ) {
		clearstatcache();
		foreach ( isset( $state['files'] ) ? $state['files'] : array() as $name => $file ) {
			$is_current = file_exists( $folder . $name ) && filesize( $folder . $name ) === $file['bytes'] && file_exists( $folder . $file['copy'] );
			if ( ! $is_current || '' === Imgproc_Local_Settings::get( 'format' ) ) {
				wp_delete_file( $folder . $file['copy'] );
				unset( $state['files'][ $name ] );
			}
		}
	}

	/**
	 * Uploads folder, with a slash at its end.
	 *
	 * @return string
	 */
	public static function base_dir() {
		$uploads = wp_get_upload_dir();
		return trailingslashit( $uploads['basedir'] );
	}
}
