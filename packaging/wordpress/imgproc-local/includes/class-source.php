<?php
/**
 * What is sent to the service for an attachment.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Chooses the file, the operation and the fields of a request.
 */
final class Imgproc_Local_Source {

	/**
	 * MIME types that the service writes alt texts for. AVIF, which WordPress 6.5 accepts, is only optimized.
	 */
	const TYPES = array( 'image/jpeg', 'image/png', 'image/gif', 'image/webp' );

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
		if ( in_array( $type, self::TYPES, true ) ) {
			return true;
		}
		if ( 'image/avif' === $type ) {
			return Imgproc_Local_Settings::get( 'optimize' ) ? true : new WP_Error( 'skipped', __( 'AVIF files are only made smaller, which the settings do not ask for.', 'imgproc-local' ) );
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
	 * @return array|WP_Error With path, operation, fields, options (a hash of operation and fields without the context), sha256, key (the Idempotency-Key), published_bytes and published_sha256.
	 */
	public static function request( $attachment_id, array $args, array $state ) {
		$check = self::check( $attachment_id );
		if ( is_wp_error( $check ) ) {
			return $check;
		}
		$published = get_attached_file( $attachment_id );
		if ( ! $published || ! is_readable( $published ) ) {
			/* translators: %s: file name. */
			return new WP_Error( 'refused', sprintf( __( 'The file %s is not on this server.', 'imgproc-local' ), wp_basename( (string) $published ) ) );
		}
		if ( ! Imgproc_Local_Files::is_in_uploads( $published ) ) {
			/* translators: %s: file name. */
			return new WP_Error( 'refused', sprintf( __( 'The file %s is not in the folder of uploads.', 'imgproc-local' ), wp_basename( $published ) ) );
		}
		$operation = self::operation( $attachment_id, ! empty( $args['texts_only'] ) );
		if ( '' === $operation ) {
			return new WP_Error( 'skipped', __( 'The settings ask for nothing that can be done with this file.', 'imgproc-local' ) );
		}
		$kept = Imgproc_Local_Originals::find( $published, $state );
		$path = '' === $kept ? $published : $kept; // Send the original: a result must not be compressed again.

		$fields = array();
		if ( in_array( $operation, array( 'analyze', 'process' ), true ) ) {
			$fields['languages'] = self::languages( $attachment_id );
			$context             = isset( $state['context'] ) ? $state['context'] : self::context( $attachment_id );
			if ( '' !== $context ) {
				$fields['context'] = $context;
			}
		}
		if ( in_array( $operation, array( 'convert', 'process' ), true ) ) {
			$format           = Imgproc_Local_Settings::get( 'format' );
			$fields['format'] = '' === $format ? 'webp' : $format;
		}
		$fields['project_name'] = substr( (string) wp_parse_url( home_url(), PHP_URL_HOST ), 0, 255 );

		$sha256  = hash_file( 'sha256', $path );
		$options = $operation . '|' . wp_json_encode( array_diff_key( $fields, array( 'context' => '' ) ) );
		$again   = isset( $args['again'] ) ? $args['again'] : '';
		return array(
			'path'             => $path,
			'operation'        => $operation,
			'fields'           => $fields,
			'options'          => md5( $options ),
			'sha256'           => $sha256,
			'key'              => hash( 'sha256', implode( '|', array( home_url(), get_current_blog_id(), $attachment_id, $sha256, $options, wp_json_encode( $fields ), $again ) ) ),
			'published_bytes'  => (int) filesize( $published ),
			'published_sha256' => $path === $published ? $sha256 : hash_file( 'sha256', $published ),
		);
	}

	/**
	 * The operation that does what the settings ask for. For two tasks or more that is “process”, which does all three.
	 *
	 * @param int  $attachment_id Attachment.
	 * @param bool $texts_only    Whether only texts are to be written.
	 * @return string Empty if there is nothing to do.
	 */
	private static function operation( $attachment_id, $texts_only ) {
		$type = get_post_mime_type( $attachment_id );
		if ( 'image/avif' === $type ) {
			return $texts_only ? '' : 'optimize';
		}
		if ( $texts_only ) {
			return 'analyze';
		}
		$tasks = array();
		if ( Imgproc_Local_Settings::get( 'alt' ) ) {
			$tasks[] = 'analyze';
		}
		if ( Imgproc_Local_Settings::get( 'optimize' ) ) {
			$tasks[] = 'optimize';
		}
		if ( '' !== Imgproc_Local_Settings::get( 'format' ) && in_array( $type, array( 'image/jpeg', 'image/png' ), true ) ) {
			$tasks[] = 'convert';
		}
		return count( $tasks ) > 1 ? 'process' : (string) reset( $tasks );
	}

	/**
	 * Languages of the request separated by commas, that of the attachment first.
	 *
	 * @param int $attachment_id Attachment.
	 * @return string
	 */
	private static function languages( $attachment_id ) {
		$codes = array_merge( array( Imgproc_Local_Settings::language( $attachment_id ) ), Imgproc_Local_Settings::get( 'languages' ) );
		return implode( ',', array_slice( array_unique( $codes ), 0, Imgproc_Local_Settings::MAX_LANGUAGES ) );
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
}
