<?php
/**
 * Encodes the smaller sizes of an image in a modern format.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Uses WordPress’ image editor; for AVIF, which it does not know before WordPress 6.5, Imagick or GD.
 */
final class Imgproc_Local_Encoder {

	/**
	 * Quality of AVIF copies of smaller sizes, about that of WordPress’ JPEG files.
	 */
	const AVIF_QUALITY = 60;

	/**
	 * Whether PHP can write a format, with WordPress’ image editor or without it.
	 *
	 * @param string $format webp or avif.
	 * @return bool
	 */
	public static function can_write( $format ) {
		return wp_image_editor_supports( array( 'mime_type' => 'image/' . $format ) ) || self::can_write_avif_without_editor( $format );
	}

	/**
	 * Whether the format is AVIF and Imagick or GD can write it.
	 *
	 * @param string $format webp or avif.
	 * @return bool
	 */
	private static function can_write_avif_without_editor( $format ) {
		return 'avif' === $format && ( ( class_exists( 'Imagick' ) && Imagick::queryFormats( 'AVIF' ) ) || function_exists( 'imageavif' ) );
	}

	/**
	 * Encodes a file in another format.
	 *
	 * @param string $source Path of the file.
	 * @param string $target Path of the new file.
	 * @param string $format webp or avif.
	 * @return bool
	 */
	public static function encode( $source, $target, $format ) {
		$mime = 'image/' . $format;
		if ( ! wp_image_editor_supports( array( 'mime_type' => $mime ) ) ) {
			return self::can_write_avif_without_editor( $format ) && self::encode_avif( $source, $target );
		}
		$editor = wp_get_image_editor( $source, array( 'output_mime_type' => $mime ) );
		if ( is_wp_error( $editor ) || ( $editor instanceof WP_Image_Editor_GD && self::is_palette_png( $source ) ) ) {
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
	 * Encodes a file as AVIF without WordPress’ image editor. Imagick is preferred, because GD drops the colour profile.
	 *
	 * @param string $source Path of the file.
	 * @param string $target Path of the new file.
	 * @return bool
	 */
	private static function encode_avif( $source, $target ) {
		if ( class_exists( 'Imagick' ) && Imagick::queryFormats( 'AVIF' ) ) {
			try {
				$image = new Imagick( $source );
				$image->setImageFormat( 'avif' );
				$image->setImageCompressionQuality( self::AVIF_QUALITY );
				return $image->writeImage( 'avif:' . $target );
			} catch ( ImagickException $error ) {
				return false;
			}
		}
		$image = imagecreatefromstring( (string) file_get_contents( $source ) ); // phpcs:ignore WordPress.WP.AlternativeFunctions.file_get_contents_file_get_contents -- a local file.
		if ( ! $image ) {
			return false;
		}
		imagepalettetotruecolor( $image );
		imagesavealpha( $image, true );
		return imageavif( $image, $target, self::AVIF_QUALITY );
	}

	/**
	 * Whether a file is a PNG with a palette, which GD can’t write as WebP.
	 *
	 * @param string $path Path of the file.
	 * @return bool
	 */
	private static function is_palette_png( $path ) {
		$head = (string) file_get_contents( $path, false, null, 0, 26 ); // phpcs:ignore WordPress.WP.AlternativeFunctions.file_get_contents_file_get_contents -- a local file.
		return 26 === strlen( $head ) && "\x89PNG" === substr( $head, 0, 4 ) && 3 === ord( $head[25] );
	}
}
