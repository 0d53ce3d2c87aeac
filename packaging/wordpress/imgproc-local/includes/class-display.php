<?php
/**
 * What visitors receive.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Fills empty alt texts of images in posts, and gives browsers that accept a modern format the addresses of the copies.
 * Posts in the database are not changed.
 */
final class Imgproc_Local_Display {

	/**
	 * Registers the hooks.
	 */
	public static function init() {
		add_filter( 'wp_content_img_tag', array( __CLASS__, 'content_image' ), 20, 3 );
		add_filter( 'wp_get_attachment_image_attributes', array( __CLASS__, 'attachment_image' ), 20, 2 );
		add_filter( 'wp_calculate_image_srcset', array( __CLASS__, 'srcset' ), 20, 5 );
		add_action( 'send_headers', array( __CLASS__, 'vary' ) );
	}

	/**
	 * Changes an image in the content of a post.
	 *
	 * @param string $tag           Tag of the image.
	 * @param string $context       The filter or function that prints it.
	 * @param int    $attachment_id Attachment, or 0.
	 * @return string
	 */
	public static function content_image( $tag, $context, $attachment_id ) {
		return $attachment_id ? self::with_copies( self::fill_alt( $tag, $attachment_id ), $attachment_id ) : $tag;
	}

	/**
	 * Changes an image that a theme prints. Its alt text is the attachment’s own.
	 *
	 * @param array   $attributes Attributes of the tag.
	 * @param WP_Post $attachment Attachment.
	 * @return array
	 */
	public static function attachment_image( $attributes, $attachment ) {
		if ( isset( $attributes['src'] ) ) {
			$attributes['src'] = self::with_copies( $attributes['src'], $attachment->ID );
		}
		return $attributes;
	}

	/**
	 * Changes the sources of an image.
	 *
	 * @param array|false $sources       Sources by their width.
	 * @param array       $size          Width and height.
	 * @param string      $src           Address of the image.
	 * @param array       $metadata      Metadata.
	 * @param int         $attachment_id Attachment, or 0.
	 * @return array|false
	 */
	public static function srcset( $sources, $size, $src, $metadata, $attachment_id ) {
		foreach ( $attachment_id && is_array( $sources ) ? $sources : array() as $width => $source ) {
			$sources[ $width ]['url'] = self::with_copies( $source['url'], $attachment_id );
		}
		return $sources;
	}

	/**
	 * Tells caches that pages differ by what the browser accepts.
	 */
	public static function vary() {
		if ( '' !== Imgproc_Local_Settings::get( 'format' ) && ! is_admin() ) {
			header( 'Vary: Accept', false );
		}
	}

	/**
	 * Writes the alt text of an image that has none, unless the post marks it as decorative.
	 *
	 * @param string $tag           Tag of the image.
	 * @param int    $attachment_id Attachment.
	 * @return string
	 */
	private static function fill_alt( $tag, $attachment_id ) {
		if ( preg_match( '/\salt=("|\')\s*[^"\'\s]/', $tag ) || preg_match( '/\s(role=("|\')(presentation|none)|aria-hidden=("|\')true)/', $tag ) ) {
			return $tag;
		}
		$alt = self::alt( $attachment_id );
		/**
		 * Filters the alt text of an image in a post that has none. An empty string leaves it without one.
		 *
		 * @param string $alt           Alt text.
		 * @param int    $attachment_id Attachment.
		 * @param string $tag           Tag of the image.
		 */
		$alt = (string) apply_filters( 'imgproc_local_display_alt', $alt, $attachment_id, $tag );
		if ( '' === $alt ) {
			return $tag;
		}
		$attribute = ' alt="' . esc_attr( $alt ) . '"';
		$without   = preg_replace( '/\salt(=("|\')\s*\2)?(?=[\s\/>])/', '', $tag, 1 );
		return substr_replace( $without, $attribute, strlen( '<img' ), 0 );
	}

	/**
	 * Alt text to show for an image that was inserted into a post before its alt text was written: in the language of the
	 * page if there is one, else the one that is stored with the attachment.
	 *
	 * @param int $attachment_id Attachment.
	 * @return string Empty if the attachment already had an alt text when it was first processed, or has none now.
	 */
	private static function alt( $attachment_id ) {
		$state = Imgproc_Local_Queue::state( $attachment_id );
		$alt   = trim( (string) get_post_meta( $attachment_id, Imgproc_Local_Attachment::ALT, true ) );
		if ( '' === $alt || empty( $state['fills_alt'] ) ) {
			return '';
		}
		$language = strtolower( substr( determine_locale(), 0, 2 ) );
		$text     = $state['texts'][ $language ] ?? array( 'needs_text' => true );
		$is_ours  = ( $state['alt_written'] ?? '' ) === $alt;
		// In the attachment’s own language, the text in the state may be a proposal of a preview that nobody has accepted.
		$is_other = Imgproc_Local_Settings::language( $attachment_id ) !== $language;
		return $is_ours && $is_other && ! $text['needs_text'] && '' !== $text['alt'] ? $text['alt'] : $alt;
	}

	/**
	 * Replaces the addresses of the attachment’s files in a text by those of their copies, which have the same name with an
	 * ending appended, where the browser accepts them.
	 *
	 * @param string $text          An address, or a tag with addresses in its attributes.
	 * @param int    $attachment_id Attachment.
	 * @return string
	 */
	private static function with_copies( $text, $attachment_id ) {
		$accepted = self::accepted();
		$files    = $accepted ? Imgproc_Local_Queue::state( $attachment_id )['files'] : array();
		$folder   = trailingslashit( dirname( (string) get_attached_file( $attachment_id ) ) );
		$relative = ltrim( trailingslashit( dirname( (string) get_post_meta( $attachment_id, '_wp_attached_file', true ) ) ), './' );
		foreach ( $files as $name => $file ) {
			$is_named = false !== strpos( $text, $name ) || false !== strpos( $text, rawurlencode( $name ) );
			$copy     = $is_named ? Imgproc_Local_Files::copy_of( $folder, $name, $files ) : '';
			if ( in_array( 'image/' . pathinfo( $copy, PATHINFO_EXTENSION ), $accepted, true ) ) {
				$names = preg_quote( $relative, '#' ) . '(' . preg_quote( $name, '#' ) . '|' . preg_quote( rawurlencode( $name ), '#' ) . ')';
				$text  = preg_replace( "#(/$names)(?=[\s\"'?\#]|$)#", '$1' . substr( $copy, strlen( $name ) ), $text );
			}
		}
		return $text;
	}

	/**
	 * Modern formats that the browser accepts. None for feeds, the REST interface and the admin: whoever receives their
	 * addresses stores them or passes them on to other programs.
	 *
	 * @return string[] MIME types.
	 */
	private static function accepted() {
		$is_page = ! is_admin() && ! ( did_action( 'parse_query' ) && is_feed() ) && ! wp_doing_cron() && ! wp_doing_ajax() && ! ( defined( 'REST_REQUEST' ) && REST_REQUEST ) && ! ( defined( 'WP_CLI' ) && WP_CLI );
		$accept  = isset( $_SERVER['HTTP_ACCEPT'] ) ? sanitize_text_field( wp_unslash( $_SERVER['HTTP_ACCEPT'] ) ) : '';
		if ( ! $is_page || '' === $accept || '' === Imgproc_Local_Settings::get( 'format' ) ) {
			return array();
		}
		return array_filter(
			substr_replace( array_keys( Imgproc_Local_Files::FORMATS ), 'image/', 0, 0 ),
			function ( $type ) use ( $accept ) {
				return false !== strpos( $accept, $type ) && ! preg_match( "#$type\s*;\s*q=0(\.0*)?\s*(,|$)#", $accept );
			}
		);
	}
}
