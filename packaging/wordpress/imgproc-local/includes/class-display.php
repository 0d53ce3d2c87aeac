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
		if ( ! $attachment_id ) {
			return $tag;
		}
		$tag = self::fill_alt( $tag, $attachment_id );
		if ( ! self::accepted() ) {
			return $tag;
		}
		$changed = preg_replace_callback(
			'/(\s(?:src|srcset)=)("|\')(.*?)\2/s',
			function ( $found ) use ( $attachment_id ) {
				$sources = array_map(
					function ( $source ) use ( $attachment_id ) {
						$parts    = explode( ' ', trim( $source ), 2 );
						$parts[0] = self::address( $parts[0], $attachment_id );
						return implode( ' ', $parts );
					},
					preg_split( '/,\s+/', $found[3] )
				);
				return $found[1] . $found[2] . implode( ', ', $sources ) . $found[2];
			},
			$tag
		);
		return null === $changed ? $tag : $changed;
	}

	/**
	 * Changes an image that a theme prints. Its alt text is the attachment’s own.
	 *
	 * @param array   $attributes Attributes of the tag.
	 * @param WP_Post $attachment Attachment.
	 * @return array
	 */
	public static function attachment_image( $attributes, $attachment ) {
		if ( isset( $attributes['src'] ) && self::accepted() ) {
			$attributes['src'] = self::address( $attributes['src'], $attachment->ID );
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
		if ( ! is_array( $sources ) || ! $attachment_id || ! self::accepted() ) {
			return $sources;
		}
		foreach ( $sources as $width => $source ) {
			$sources[ $width ]['url'] = self::address( $source['url'], $attachment_id );
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
		$alt = Imgproc_Local_Attachment::alt_for_display( $attachment_id );
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
	 * Address of the copy of a file if there is one that the browser accepts, else that of the file itself.
	 *
	 * @param string $url           Address of the file.
	 * @param int    $attachment_id Attachment.
	 * @return string
	 */
	private static function address( $url, $attachment_id ) {
		$state = Imgproc_Local_Queue::state( $attachment_id );
		$file  = get_attached_file( $attachment_id );
		if ( ! $state['files'] || ! $file ) {
			return $url;
		}
		list( $path ) = preg_split( '/[?#]/', $url, 2 );
		$name         = rawurldecode( wp_basename( $path ) );
		$copy         = Imgproc_Local_Files::copy_for( trailingslashit( dirname( $file ) ), $name, $state['files'], self::accepted() );
		$relative     = ltrim( trailingslashit( dirname( (string) get_post_meta( $attachment_id, '_wp_attached_file', true ) ) ), './' );
		if ( '' === $copy || ! preg_match( '#/' . preg_quote( $relative, '#' ) . '[^/]+$#', rawurldecode( $path ) ) ) {
			return $url;
		}
		// The copy has the source’s name with an ending appended.
		return $path . substr( $copy, strlen( $name ) ) . substr( $url, strlen( $path ) );
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
		$accepted = array();
		foreach ( array( 'image/webp', 'image/avif' ) as $type ) {
			if ( false !== strpos( $accept, $type ) && ! preg_match( "#$type\s*;\s*q=0(\.0*)?\s*(,|$)#", $accept ) ) {
				$accepted[] = $type;
			}
		}
		return $accepted;
	}
}
