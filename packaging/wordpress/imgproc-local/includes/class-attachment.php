<?php
/**
 * Queues uploads, and applies the results of their jobs.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Queues attachments when they are uploaded or changed, and applies what the service has made of them.
 */
final class Imgproc_Local_Attachment {

	const ALT = '_wp_attachment_image_alt';

	/**
	 * Seconds after which an upload is processed although WordPress did not finish its metadata, because making the
	 * smaller sizes took too long.
	 */
	const UNFINISHED_UPLOAD_S = 60;

	/**
	 * Seconds from the generation of the metadata until the attachment may be sent: WordPress stores them meanwhile.
	 */
	const METADATA_S = 2;

	/**
	 * Registers the hooks.
	 */
	public static function init() {
		add_action( 'add_attachment', array( __CLASS__, 'added' ) );
		add_filter( 'wp_generate_attachment_metadata', array( __CLASS__, 'metadata_generated' ), 9999, 2 );
		add_action( 'added_post_meta', array( __CLASS__, 'meta_changed' ), 10, 4 );
		add_action( 'updated_post_meta', array( __CLASS__, 'meta_changed' ), 10, 4 );
		add_action( 'delete_attachment', array( __CLASS__, 'deleted' ) );
	}

	/**
	 * Queues a new attachment, in case its metadata are never generated.
	 *
	 * @param int $attachment_id Attachment.
	 */
	public static function added( $attachment_id ) {
		self::queue_upload( (int) $attachment_id, self::UNFINISHED_UPLOAD_S );
	}

	/**
	 * Queues an attachment whose metadata are generated: after its upload, and when its sizes were made again.
	 *
	 * @param array $metadata      Metadata.
	 * @param int   $attachment_id Attachment.
	 * @return array
	 */
	public static function metadata_generated( $metadata, $attachment_id ) {
		self::queue_upload( (int) $attachment_id, self::METADATA_S );
		return $metadata;
	}

	/**
	 * Queues a processed image again when WordPress’s editor or another plugin has given it another file. Notes that an
	 * attachment no longer lacks an alt text.
	 *
	 * @param int    $meta_id       Identifier of the row.
	 * @param int    $attachment_id Attachment.
	 * @param string $key           Name of the post meta.
	 * @param mixed  $value         Value.
	 */
	public static function meta_changed( $meta_id, $attachment_id, $key, $value ) {
		if ( self::ALT === $key && is_string( $value ) && '' !== trim( $value ) && get_post_meta( $attachment_id, Imgproc_Local_Queue::META_NEEDS_TEXT, true ) ) {
			update_post_meta( $attachment_id, Imgproc_Local_Queue::META_NEEDS_TEXT, 0 );
		}
		if ( '_wp_attached_file' === $key ) {
			$state = get_post_meta( $attachment_id, Imgproc_Local_Queue::META_STATE, true );
			if ( in_array( $state, array( 'done', 'failed' ), true ) ) {
				self::queue_upload( (int) $attachment_id, self::METADATA_S );
			}
		}
	}

	/**
	 * Removes the copies and the kept original of an attachment that is deleted. WordPress removes its post meta.
	 *
	 * @param int $attachment_id Attachment.
	 */
	public static function deleted( $attachment_id ) {
		if ( metadata_exists( 'post', $attachment_id, Imgproc_Local_Queue::META ) ) {
			Imgproc_Local_Files::remove( $attachment_id, Imgproc_Local_Queue::state( $attachment_id ) );
		}
	}

	/**
	 * Applies the results of a job with a final status: first the texts, then the files. It can be repeated after an error.
	 * Stages of the job that failed are no error here: the attachment becomes failed, with their messages.
	 *
	 * @param int                  $attachment_id Attachment.
	 * @param Imgproc_Local_Client $client        Client of the job.
	 * @param array                $job           Job as the service sends it.
	 * @param array                $state         State; changed.
	 * @return true|WP_Error
	 */
	public static function apply_job( $attachment_id, Imgproc_Local_Client $client, array $job, array &$state ) {
		$image             = $job['image'];
		$state['image_id'] = $image['id'];
		foreach ( $image['translations'] as $text ) {
			$state['texts'][ $text['language_code'] ] = array(
				'alt'        => $text['seo_alt_text'],
				'filename'   => $text['seo_filename'],
				'source'     => $text['source'],
				'needs_text' => (bool) $text['needs_text'],
			);
		}
		self::write_alt( $attachment_id, $state );
		Imgproc_Local_Queue::save( $attachment_id, $state );

		$texts_only = ! empty( $state['args']['texts_only'] );
		if ( ! $texts_only ) {
			$result = self::apply_files( $attachment_id, $client, $image, $state );
			if ( is_wp_error( $result ) ) {
				return $result;
			}
			$state['done_options'] = $state['sent_options'];
			$state['done_sha256']  = $state['sent_sha256'];
		}
		$errors = array();
		foreach ( isset( $job['errors'] ) ? $job['errors'] : array() as $error ) {
			$errors[] = $error['stage'] . ': ' . $error['message'];
		}
		$state['error'] = implode( ' ', $errors );
		self::finish( $attachment_id, $state, $errors ? 'failed' : 'done' );
		return true;
	}

	/**
	 * Whether nothing has changed since the attachment was processed: the options are the same, all copies are there, and
	 * the published file has the content that it had afterwards. WordPress overwrites that file when it makes the sizes
	 * of a scaled image again.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $request       Request of Imgproc_Local_Source.
	 * @param array $state         State.
	 * @return bool
	 */
	public static function is_done( $attachment_id, array $request, array $state ) {
		return isset( $state['done_options'] ) && $state['done_options'] === $request['options']
			&& $state['published_sha256'] === $request['published_sha256']
			&& Imgproc_Local_Files::has_all_copies( $attachment_id, $state );
	}

	/**
	 * Finishes an attachment that need not be sent: writes its alt text, and makes copies of new sizes.
	 *
	 * @param int                  $attachment_id Attachment.
	 * @param Imgproc_Local_Client $client        Client.
	 * @param array                $state         State.
	 */
	public static function finish_unsent( $attachment_id, Imgproc_Local_Client $client, array $state ) {
		self::write_alt( $attachment_id, $state );
		Imgproc_Local_Files::add_copies( $attachment_id, $client, null, $state );
		self::finish( $attachment_id, $state, 'done' );
	}

	/**
	 * State of another attachment with the same file, if it was processed or is being processed.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $request       Request of Imgproc_Local_Source.
	 * @return array State; its field state is empty if there is none.
	 */
	public static function twin( $attachment_id, array $request ) {
		foreach ( Imgproc_Local_Files::twins( $attachment_id ) as $id ) {
			wp_cache_delete( $id, 'post_meta' );
			$state = Imgproc_Local_Queue::state( $id );
			if ( 'sent' === $state['state'] || ( 'done' === $state['state'] && isset( $state['published_sha256'] ) && $state['published_sha256'] === $request['published_sha256'] ) ) {
				return $state;
			}
		}
		return array( 'state' => '' );
	}

	/**
	 * Copies the fields that describe a file to the state of another attachment with the same file.
	 *
	 * @param array $from State of the other attachment.
	 * @param array $to   State; changed.
	 */
	public static function copy_file_fields( array $from, array &$to ) {
		foreach ( array( 'files', 'originals', 'original_bytes', 'published_sha256', 'replaced', 'done_options', 'done_sha256' ) as $field ) {
			if ( isset( $from[ $field ] ) ) {
				$to[ $field ] = $from[ $field ];
			}
		}
	}

	/**
	 * Stores a text that a person has written or accepted.
	 *
	 * @param int    $attachment_id Attachment.
	 * @param string $language      Code of the language.
	 * @param string $alt           Alt text.
	 * @return true|WP_Error
	 */
	public static function accept_text( $attachment_id, $language, $alt ) {
		$alt = trim( wp_strip_all_tags( $alt, true ) );
		if ( '' === $alt || 'attachment' !== get_post_type( $attachment_id ) ) {
			return new WP_Error( 'refused', __( 'An alt text of an attachment was expected.', 'imgproc-local' ) );
		}
		wp_cache_delete( $attachment_id, 'post_meta' );
		$state = Imgproc_Local_Queue::state( $attachment_id );

		$state['texts'][ $language ] = array_merge(
			array( 'filename' => '' ),
			isset( $state['texts'][ $language ] ) ? $state['texts'][ $language ] : array(),
			array(
				'alt'        => $alt,
				'source'     => 'person',
				'needs_text' => false,
			)
		);
		if ( Imgproc_Local_Settings::language( $attachment_id ) === $language ) {
			update_post_meta( $attachment_id, self::ALT, wp_slash( $alt ) );
			$state['alt_written'] = $alt;
			$state['fills_alt']   = true;
			update_post_meta( $attachment_id, Imgproc_Local_Queue::META_NEEDS_TEXT, 0 );
		}
		Imgproc_Local_Queue::save( $attachment_id, $state );
		return true;
	}

	/**
	 * Alt text to show for an image that was inserted into a post before its alt text was written: in the language of the
	 * page if there is one, else the one that is stored with the attachment.
	 *
	 * @param int $attachment_id Attachment.
	 * @return string Empty if the attachment already had an alt text when it was first processed, or has none now.
	 */
	public static function alt_for_display( $attachment_id ) {
		$state = Imgproc_Local_Queue::state( $attachment_id );
		$alt   = trim( (string) get_post_meta( $attachment_id, self::ALT, true ) );
		if ( '' === $alt || empty( $state['fills_alt'] ) ) {
			return '';
		}
		$language = strtolower( substr( determine_locale(), 0, 2 ) );
		$is_ours  = isset( $state['alt_written'] ) && $state['alt_written'] === $alt;
		// In the attachment’s own language, the text in the state may be a proposal of a preview that nobody has accepted.
		$is_other = Imgproc_Local_Settings::language( $attachment_id ) !== $language;
		if ( $is_ours && $is_other && isset( $state['texts'][ $language ] ) && ! $state['texts'][ $language ]['needs_text'] && '' !== $state['texts'][ $language ]['alt'] ) {
			return $state['texts'][ $language ]['alt'];
		}
		return $alt;
	}

	/**
	 * Queues an upload if the settings say so. The queue records PDF files and images that the service does not accept as
	 * skipped; other files are ignored here.
	 *
	 * @param int $attachment_id Attachment.
	 * @param int $delay_s       Seconds until it may be sent.
	 */
	private static function queue_upload( $attachment_id, $delay_s ) {
		if ( ! Imgproc_Local_Settings::get( 'on_upload' ) || ! Imgproc_Local_Settings::is_ready() ) {
			return;
		}
		$type = (string) get_post_mime_type( $attachment_id );
		if ( 0 === strpos( $type, 'image/' ) || 'application/pdf' === $type ) {
			Imgproc_Local_Queue::add( $attachment_id, array(), $delay_s );
		}
	}

	/**
	 * Writes the attachment’s alt text if it was always empty, or is the one that the plugin has written. One that a person
	 * has written or removed stays as it is, and a preview replaces none. Notes whether a person has to write one.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $state         State; changed.
	 */
	private static function write_alt( $attachment_id, array &$state ) {
		$language = Imgproc_Local_Settings::language( $attachment_id );
		if ( ! isset( $state['texts'][ $language ] ) || ! Imgproc_Local_Queue::exists( $attachment_id ) ) {
			return;
		}
		wp_cache_delete( $attachment_id, 'post_meta' );
		$text    = $state['texts'][ $language ];
		$current = trim( (string) get_post_meta( $attachment_id, self::ALT, true ) );
		$written = isset( $state['alt_written'] ) ? $state['alt_written'] : '';
		if ( '' === $current && '' === $written ) {
			$state['fills_alt'] = true;
		}
		$may_write = '' === $current ? '' === $written : ( $current === $written && empty( $state['args']['preview'] ) );
		if ( $may_write && ! $text['needs_text'] && '' !== $text['alt'] ) {
			$alt = trim( wp_strip_all_tags( $text['alt'], true ) );
			update_post_meta( $attachment_id, self::ALT, wp_slash( $alt ) );
			$state['alt_written'] = $alt;
			$current              = $alt;
		}
		update_post_meta( $attachment_id, Imgproc_Local_Queue::META_NEEDS_TEXT, (int) ( $text['needs_text'] && '' === $current ) );
	}

	/**
	 * Applies the files of a job, as the settings say.
	 *
	 * @param int                  $attachment_id Attachment.
	 * @param Imgproc_Local_Client $client        Client of the job.
	 * @param array                $image         Image of the job.
	 * @param array                $state         State; changed.
	 * @return true|WP_Error
	 */
	private static function apply_files( $attachment_id, Imgproc_Local_Client $client, array $image, array &$state ) {
		$published = get_attached_file( $attachment_id );
		if ( ! Imgproc_Local_Queue::exists( $attachment_id ) || ! is_readable( $published ) || ! Imgproc_Local_Files::is_in_uploads( $published ) ) {
			return new WP_Error( 'refused', __( 'The file was removed while the service worked on it.', 'imgproc-local' ) );
		}
		if ( Imgproc_Local_Settings::get( 'optimize' ) && $state['may_replace'] ) {
			$before = filesize( $published );
			$result = Imgproc_Local_Files::replace( $attachment_id, $client, $image, $state );
			if ( is_wp_error( $result ) ) {
				return $result;
			}
			clearstatcache();
			$state['replaced'] = ! empty( $state['replaced'] ) || filesize( $published ) !== $before;
		}
		$state['published_sha256'] = hash_file( 'sha256', $published );
		Imgproc_Local_Queue::save( $attachment_id, $state );
		$result = Imgproc_Local_Files::add_copies( $attachment_id, $client, $image, $state );
		if ( ! Imgproc_Local_Queue::exists( $attachment_id ) && ! file_exists( $published ) ) { // Deleted meanwhile.
			Imgproc_Local_Files::remove_of( $published, $state );
			Imgproc_Local_Queue::forget( $attachment_id );
		}
		return $result;
	}

	/**
	 * Stores how many bytes were saved, and takes an attachment out of the queue.
	 *
	 * @param int    $attachment_id Attachment.
	 * @param array  $state         State.
	 * @param string $final_state   done or failed.
	 */
	private static function finish( $attachment_id, array $state, $final_state ) {
		if ( ! Imgproc_Local_Queue::exists( $attachment_id ) ) {
			return;
		}
		$state['saved_bytes'] = Imgproc_Local_Files::saved_bytes( $attachment_id, $state );
		update_post_meta( $attachment_id, Imgproc_Local_Queue::META_SAVED, $state['saved_bytes'] );
		Imgproc_Local_Queue::finish( $attachment_id, $state, $final_state );
	}
}
