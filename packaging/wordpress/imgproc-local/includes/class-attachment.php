<?php
/**
 * Queues uploads, makes the requests for them, and applies the results of their jobs.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Queues attachments when they are uploaded or changed, chooses what is sent for them, and applies what the service has
 * made of them.
 */
final class Imgproc_Local_Attachment {

	const ALT = '_wp_attachment_image_alt';

	/**
	 * Post meta of an image that an editor has marked as decorative wherever it is shown: an array with the alt text that it
	 * had. WordPress 7.1 marks only a single use of an image, by the attribute isDecorative of its block.
	 */
	const DECORATIVE = '_imgproc_local_decorative';

	/**
	 * MIME types that the service writes alt texts for. AVIF, which WordPress 6.5 accepts, is only optimized.
	 */
	const TYPES = array( 'image/jpeg', 'image/png', 'image/gif', 'image/webp' );

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
		add_action( 'add_attachment', array( __CLASS__, 'queue_upload' ) );
		add_filter( 'wp_generate_attachment_metadata', array( __CLASS__, 'metadata_generated' ), 9999, 2 );
		add_action( 'added_post_meta', array( __CLASS__, 'meta_changed' ), 10, 4 );
		add_action( 'updated_post_meta', array( __CLASS__, 'meta_changed' ), 10, 4 );
		add_action( 'delete_attachment', array( __CLASS__, 'deleted' ) );
	}

	/**
	 * Queues an upload if the settings say so, in case its metadata are never generated. The queue records PDF files and
	 * images that the service does not accept as skipped; other files are ignored here.
	 *
	 * @param int $attachment_id Attachment.
	 * @param int $delay_s       Seconds until it may be sent.
	 */
	public static function queue_upload( $attachment_id, $delay_s = self::UNFINISHED_UPLOAD_S ) {
		$type = (string) get_post_mime_type( $attachment_id );
		if ( Imgproc_Local_Settings::get( 'on_upload' ) && Imgproc_Local_Settings::is_ready() && ( 0 === strpos( $type, 'image/' ) || 'application/pdf' === $type ) ) {
			Imgproc_Local_Queue::add( (int) $attachment_id, array(), $delay_s );
		}
	}

	/**
	 * Queues an attachment whose metadata are generated: after its upload, and when its sizes were made again.
	 *
	 * @param array $metadata      Metadata.
	 * @param int   $attachment_id Attachment.
	 * @return array
	 */
	public static function metadata_generated( $metadata, $attachment_id ) {
		self::queue_upload( $attachment_id, self::METADATA_S );
		return $metadata;
	}

	/**
	 * Queues a processed image again when WordPress’s editor or another plugin has given it another file. Notes that an
	 * attachment no longer lacks an alt text, nor is decorative, when it gets one.
	 *
	 * @param int    $meta_id       Identifier of the row.
	 * @param int    $attachment_id Attachment.
	 * @param string $key           Name of the post meta.
	 * @param mixed  $value         Value.
	 */
	public static function meta_changed( $meta_id, $attachment_id, $key, $value ) {
		if ( self::ALT === $key && is_string( $value ) && '' !== trim( $value ) ) {
			delete_post_meta( $attachment_id, self::DECORATIVE );
			if ( get_post_meta( $attachment_id, Imgproc_Local_Queue::META_NEEDS_TEXT, true ) ) {
				update_post_meta( $attachment_id, Imgproc_Local_Queue::META_NEEDS_TEXT, 0 );
			}
		}
		if ( '_wp_attached_file' === $key && in_array( get_post_meta( $attachment_id, Imgproc_Local_Queue::META_STATE, true ), array( 'done', 'failed' ), true ) ) {
			self::queue_upload( $attachment_id, self::METADATA_S );
		}
	}

	/**
	 * Removes the copies and the kept original of an attachment that is deleted, unless another attachment has the same
	 * file. WordPress removes its post meta.
	 *
	 * @param int $attachment_id Attachment.
	 */
	public static function deleted( $attachment_id ) {
		if ( ! Imgproc_Local_Files::twins( $attachment_id ) ) {
			Imgproc_Local_Files::remove( (string) get_attached_file( $attachment_id ), Imgproc_Local_Queue::state( $attachment_id ) );
		}
	}

	/**
	 * Whether an attachment can be processed: true, or the reason why not.
	 *
	 * @param int $attachment_id Attachment.
	 * @return true|WP_Error
	 */
	public static function check( $attachment_id ) {
		if ( 'attachment' !== get_post_type( $attachment_id ) ) {
			return new WP_Error( 'missing', __( 'There is no such attachment.', 'imgproc-local' ) );
		}
		$type = get_post_mime_type( $attachment_id );
		if ( in_array( $type, self::TYPES, true ) || 'image/avif' === $type ) {
			return true;
		}
		/* translators: %s: MIME type. */
		return new WP_Error( 'skipped', sprintf( __( 'Files of the type %s are not processed: only JPEG, PNG, GIF, WebP and AVIF are.', 'imgproc-local' ), $type ) );
	}

	/**
	 * The request for an attachment.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $args          Arguments of Imgproc_Local_Queue::add().
	 * @param array $state         State of the attachment.
	 * @return array|WP_Error With path, operation, fields, options (a hash of operation and fields without the context and what only saves credits), sha256, key (the Idempotency-Key), published_bytes and published_sha256.
	 */
	public static function request( $attachment_id, array $args, array $state ) {
		$check = self::check( $attachment_id );
		if ( is_wp_error( $check ) ) {
			return $check;
		}
		$published = (string) get_attached_file( $attachment_id );
		if ( ! is_readable( $published ) || ! Imgproc_Local_Files::is_in_uploads( $published ) ) {
			/* translators: %s: file name. */
			return new WP_Error( 'refused', sprintf( __( 'The file %s is not in the folder of uploads of this server.', 'imgproc-local' ), wp_basename( $published ) ) );
		}
		$operation = self::operation( get_post_mime_type( $attachment_id ), ! empty( $args['texts_only'] ) );
		if ( '' === $operation ) {
			return new WP_Error( 'skipped', __( 'The settings ask for nothing that can be done with this file.', 'imgproc-local' ) );
		}
		$kept = Imgproc_Local_Files::original( $published, $state );
		$path = '' === $kept ? $published : $kept; // Send the original: a result must not be compressed again.

		$fields = array();
		if ( in_array( $operation, array( 'analyze', 'process' ), true ) ) {
			$codes               = array_merge( array( Imgproc_Local_Settings::language( $attachment_id ) ), Imgproc_Local_Settings::get( 'languages' ) );
			$fields['languages'] = implode( ',', array_slice( array_unique( $codes ), 0, Imgproc_Local_Settings::MAX_LANGUAGES ) );
			$fields             += self::is_decorative( $attachment_id )
				? array( 'role' => 'decorative' )
				: array_filter( array( 'context' => $state['context'] ?? self::context( $attachment_id ) ), 'strlen' );
		}
		if ( in_array( $operation, array( 'convert', 'process' ), true ) ) {
			$format           = Imgproc_Local_Settings::get( 'format' );
			$fields['format'] = '' === $format ? 'webp' : $format;
			if ( 'convert' === $operation || Imgproc_Local_Settings::get( 'optimize' ) ) { // A larger copy would never be served.
				$fields['only_smaller'] = 'true';
			}
		}
		$fields['project_name'] = substr( (string) wp_parse_url( home_url(), PHP_URL_HOST ), 0, 255 );

		$sha256  = hash_file( 'sha256', $path );
		$options = $operation . '|' . wp_json_encode( array_diff_key( $fields, array_flip( array( 'context', 'only_smaller' ) ) ) );
		return array(
			'path'             => $path,
			'operation'        => $operation,
			'fields'           => $fields,
			'options'          => md5( $options ),
			'sha256'           => $sha256,
			'key'              => hash( 'sha256', implode( '|', array( home_url(), get_current_blog_id(), $attachment_id, $sha256, $options, wp_json_encode( $fields ), $args['again'] ?? '' ) ) ),
			'published_bytes'  => (int) filesize( $published ),
			'published_sha256' => $path === $published ? $sha256 : hash_file( 'sha256', $published ),
		);
	}

	/**
	 * The operation that does what the settings ask for. For two tasks or more that is “process”, which does all three.
	 *
	 * @param string $type       MIME type.
	 * @param bool   $texts_only Whether only texts are to be written.
	 * @return string Empty if there is nothing to do.
	 */
	private static function operation( $type, $texts_only ) {
		$has_text = in_array( $type, self::TYPES, true );
		$tasks    = array(
			'analyze'  => $has_text && ( $texts_only || Imgproc_Local_Settings::get( 'alt' ) ),
			'optimize' => ! $texts_only && Imgproc_Local_Settings::get( 'optimize' ),
			'convert'  => ! $texts_only && '' !== Imgproc_Local_Settings::get( 'format' ) && in_array( $type, array( 'image/jpeg', 'image/png' ), true ),
		);
		$tasks    = array_keys( array_filter( $tasks ) );
		return count( $tasks ) > 1 ? 'process' : (string) reset( $tasks );
	}

	/**
	 * Title and excerpt (or beginning) of the post that the image belongs to, at most 500 characters; empty for drafts never saved and posts with a password.
	 *
	 * @param int $attachment_id Attachment.
	 * @return string
	 */
	private static function context( $attachment_id ) {
		$post = get_post( wp_get_post_parent_id( $attachment_id ) );
		if ( ! $post instanceof WP_Post || 'attachment' === $post->post_type || 'auto-draft' === $post->post_status || '' !== $post->post_password ) {
			return '';
		}
		$excerpt = '' !== $post->post_excerpt ? $post->post_excerpt : wp_trim_words( strip_shortcodes( $post->post_content ), 40, '' );
		$text    = trim( preg_replace( '/\s+/u', ' ', wp_strip_all_tags( $post->post_title . '. ' . $excerpt ) ), ' .' );
		return mb_substr( html_entity_decode( $text, ENT_QUOTES, 'UTF-8' ), 0, 500 );
	}

	/**
	 * Applies the results of a job with a final status: first the texts, then the files. It can be repeated after an error.
	 * Texts that a person has written or accepted stay, unless a request replaces them.
	 * Stages of the job that failed are no error here: the attachment becomes failed, with their messages.
	 *
	 * @param int                  $attachment_id Attachment.
	 * @param Imgproc_Local_Client $client        Client of the job.
	 * @param array                $job           Job as the service sends it.
	 * @param array                $state         State; changed.
	 * @return true|WP_Error
	 */
	public static function apply_job( $attachment_id, Imgproc_Local_Client $client, array $job, array &$state ) {
		$state['suggested'] = 'decorative' === ( $job['image']['suggested_role'] ?? '' ) ? $job['image']['suggested_role_reason'] : '';
		foreach ( $job['image']['translations'] as $text ) {
			$stored = $state['texts'][ $text['language_code'] ]['source'] ?? '';
			// What the service calls a person’s is the empty text of a decorative image.
			if ( 'person' === $text['source'] || ( 'person' === $stored && empty( $state['args']['replace'] ) ) ) {
				continue;
			}
			$state['texts'][ $text['language_code'] ] = array(
				'alt'        => $text['seo_alt_text'],
				'filename'   => $text['seo_filename'],
				'source'     => $text['source'],
				'needs_text' => (bool) $text['needs_text'],
				'reason'     => $text['needs_text_reason'] ?? '',
				'long'       => $text['long_description'] ?? '',
			);
		}
		self::write_alt( $attachment_id, $state );
		Imgproc_Local_Queue::save( $attachment_id, $state );

		if ( empty( $state['args']['texts_only'] ) ) {
			$result = self::apply_files( $attachment_id, $client, $job['image'], $state );
			if ( is_wp_error( $result ) ) {
				return $result;
			}
			$state['done_options'] = $state['sent_options'];
		}
		$state['error'] = implode( ' ', wp_list_pluck( $job['errors'] ?? array(), 'message' ) );
		self::finish( $attachment_id, $state, '' === $state['error'] ? 'done' : 'failed' );
		return true;
	}

	/**
	 * Whether nothing has changed since the attachment was processed: the options are the same, all copies are there, and
	 * the published file has the content that it had afterwards. WordPress overwrites that file when it makes the sizes
	 * of a scaled image again.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $request       As request() returns it.
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
	 * @param array $request       As request() returns it.
	 * @return array State; its field state is empty if there is none.
	 */
	public static function twin( $attachment_id, array $request ) {
		foreach ( Imgproc_Local_Files::twins( $attachment_id ) as $id ) {
			wp_cache_delete( $id, 'post_meta' );
			$state = Imgproc_Local_Queue::state( $id );
			if ( 'sent' === $state['state'] || ( 'done' === $state['state'] && ( $state['published_sha256'] ?? '' ) === $request['published_sha256'] ) ) {
				return $state;
			}
		}
		return array( 'state' => '' );
	}

	/**
	 * State of an attachment with the fields that describe a file from another attachment with the same file.
	 *
	 * @param array $twin  State of the other attachment.
	 * @param array $state State.
	 * @return array
	 */
	public static function with_files_of( array $twin, array $state ) {
		$fields = array( 'files', 'larger_as', 'originals', 'original_bytes', 'published_sha256', 'replaced', 'done_options' );
		return array_merge( $state, array_intersect_key( $twin, array_flip( $fields ) ) );
	}

	/**
	 * Whether an editor has marked an image as decorative.
	 *
	 * @param int $attachment_id Attachment.
	 * @return bool
	 */
	public static function is_decorative( $attachment_id ) {
		return metadata_exists( 'post', $attachment_id, self::DECORATIVE );
	}

	/**
	 * Marks an image as decorative and empties its alt text, or removes the mark and puts the alt text back.
	 *
	 * @param int  $attachment_id Attachment.
	 * @param bool $decorative    Whether it is decorative.
	 * @return true
	 */
	public static function set_decorative( $attachment_id, $decorative ) {
		wp_cache_delete( $attachment_id, 'post_meta' );
		if ( $decorative && ! self::is_decorative( $attachment_id ) ) {
			add_post_meta( $attachment_id, self::DECORATIVE, wp_slash( array( 'alt' => (string) get_post_meta( $attachment_id, self::ALT, true ) ) ), true );
			update_post_meta( $attachment_id, self::ALT, '' );
			update_post_meta( $attachment_id, Imgproc_Local_Queue::META_NEEDS_TEXT, 0 );
		} elseif ( ! $decorative && self::is_decorative( $attachment_id ) ) {
			$before = (array) get_post_meta( $attachment_id, self::DECORATIVE, true );
			$state  = Imgproc_Local_Queue::state( $attachment_id );
			delete_post_meta( $attachment_id, self::DECORATIVE );
			update_post_meta( $attachment_id, self::ALT, wp_slash( $before['alt'] ?? '' ) );
			self::write_alt( $attachment_id, $state );
			if ( $state['texts'] ) {
				Imgproc_Local_Queue::save( $attachment_id, $state );
			}
		}
		return true;
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
		if ( '' === $alt ) {
			return new WP_Error( 'refused', __( 'Write an alt text first: the field is empty.', 'imgproc-local' ) );
		}
		wp_cache_delete( $attachment_id, 'post_meta' );
		$state = Imgproc_Local_Queue::state( $attachment_id );
		$text  = array(
			'alt'        => $alt,
			'source'     => 'person',
			'needs_text' => false,
		);

		$state['texts'][ $language ] = $text + ( $state['texts'][ $language ] ?? array( 'filename' => '' ) );
		if ( Imgproc_Local_Settings::language( $attachment_id ) === $language ) {
			update_post_meta( $attachment_id, self::ALT, wp_slash( $alt ) ); // This clears META_NEEDS_TEXT, see meta_changed().
			$state['alt_written'] = $alt;
			$state['fills_alt']   = true;
		}
		Imgproc_Local_Queue::save( $attachment_id, $state );
		return true;
	}

	/**
	 * Writes the attachment’s alt text if it was always empty, or is the one that the plugin has written. One that a person
	 * has written or removed stays as it is, and a preview replaces none. Notes whether a person has to write one. The long
	 * description becomes the attachment’s description, once, if that is empty: the field of WordPress that is shown with
	 * the image, that editors can change, and that the REST interface has. A decorative image gets neither.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $state         State; changed.
	 */
	private static function write_alt( $attachment_id, array &$state ) {
		$language = Imgproc_Local_Settings::language( $attachment_id );
		wp_cache_delete( $attachment_id, 'post_meta' );
		if ( ! isset( $state['texts'][ $language ] ) || ! Imgproc_Local_Queue::exists( $attachment_id ) || self::is_decorative( $attachment_id ) ) {
			return;
		}
		$text    = $state['texts'][ $language ];
		$current = trim( (string) get_post_meta( $attachment_id, self::ALT, true ) );
		$written = $state['alt_written'] ?? '';
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
		$long = wp_strip_all_tags( $text['long'] ?? '' );
		if ( '' !== $long && empty( $state['described'] ) && '' === trim( (string) get_post_field( 'post_content', $attachment_id, 'raw' ) ) ) {
			$state['described'] = true;
			wp_update_post( wp_slash( array( 'ID' => $attachment_id ) + array( 'post_content' => $long ) ) );
		}
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
			Imgproc_Local_Files::remove( $published, $state );
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
		update_post_meta( $attachment_id, Imgproc_Local_Queue::META_SAVED, Imgproc_Local_Files::saved_bytes( $attachment_id, $state ) );
		Imgproc_Local_Queue::finish( $attachment_id, $state, $final_state );
	}
}
