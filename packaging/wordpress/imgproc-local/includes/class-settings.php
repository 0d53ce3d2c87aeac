<?php
/**
 * Settings of the plugin. Their page is in class-settings-page.php.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Reads and checks the option imgproc_local_settings. The constant IMGPROC_LOCAL_KEY in wp-config.php takes precedence
 * over the stored key. No page ever contains the key.
 */
final class Imgproc_Local_Settings {

	const OPTION        = 'imgproc_local_settings';
	const PAGE          = 'imgproc-local';
	const MAX_LANGUAGES = 10;

	/**
	 * The capability that a user needs to change the settings. Whoever sets the address makes this server send requests
	 * to it, and the server can reach hosts that can’t be reached from the internet. In a multisite network, only network
	 * administrators may do that.
	 *
	 * @return string Capability.
	 */
	public static function capability() {
		return is_multisite() ? 'manage_network_options' : 'manage_options';
	}

	/**
	 * Settings of a new installation.
	 *
	 * @return array
	 */
	public static function defaults() {
		$locale   = strtolower( substr( get_locale(), 0, 2 ) );
		$language = 'no' === $locale || 'nn' === $locale ? 'nb' : $locale;
		return array(
			'address'        => 'http://127.0.0.1:8484',
			'key'            => '',
			'languages'      => array( $language ),
			'on_upload'      => true,
			'alt'            => true,
			'optimize'       => true,
			'format'         => 'webp',
			'keep_originals' => true,
			'remove_files'   => true,
		);
	}

	/**
	 * One setting.
	 *
	 * @param string $name Name of the setting, see defaults().
	 * @return mixed
	 */
	public static function get( $name ) {
		$settings = (array) get_option( self::OPTION, array() ) + self::defaults();
		return $settings[ $name ];
	}

	/**
	 * The API key, or an empty string if there is none.
	 *
	 * @return string
	 */
	public static function key() {
		return defined( 'IMGPROC_LOCAL_KEY' ) ? (string) IMGPROC_LOCAL_KEY : (string) self::get( 'key' );
	}

	/**
	 * Whether there is a key and something to do.
	 *
	 * @return bool
	 */
	public static function is_ready() {
		return '' !== self::key() && ( self::get( 'alt' ) || self::get( 'optimize' ) || '' !== self::get( 'format' ) );
	}

	/**
	 * Language of the alt text that is stored with an attachment: the first language of the settings, unless the filter
	 * names another.
	 *
	 * @param int $attachment_id Attachment.
	 * @return string
	 */
	public static function language( $attachment_id ) {
		$languages = self::get( 'languages' );
		/**
		 * Filters the language of an attachment’s alt text, for plugins that have attachments in several languages.
		 *
		 * @param string $language      Code of the language, such as de.
		 * @param int    $attachment_id Attachment.
		 */
		return (string) apply_filters( 'imgproc_local_language', (string) reset( $languages ), $attachment_id );
	}

	/**
	 * Returns the stored settings, changed by the valid fields of the form. An empty key field keeps the stored key.
	 *
	 * @param mixed $input Value of the option.
	 * @return array
	 */
	public static function sanitize( $input ) {
		$input = is_array( $input ) ? $input : array();
		$old   = (array) get_option( self::OPTION, array() ) + self::defaults();
		$new   = $old;

		if ( isset( $input['address'] ) ) {
			$address = self::clean_address( $input['address'] );
			if ( '' === $address ) {
				add_settings_error( self::OPTION, 'address', __( 'The address must begin with http:// or https:// and have a host name, such as http://127.0.0.1:8484. The old one was left as it was.', 'imgproc-local' ) );
			} else {
				if ( $address !== $old['address'] ) {
					delete_transient( 'imgproc_local_languages' ); // They are those of the service at the old address.
				}
				$new['address'] = $address;
			}
		}
		if ( ! empty( $input['remove_key'] ) ) {
			$new['key'] = '';
		} elseif ( isset( $input['key'] ) && '' !== trim( $input['key'] ) ) {
			$new['key'] = sanitize_text_field( $input['key'] );
		}
		if ( isset( $input['languages'] ) ) {
			$codes = is_array( $input['languages'] ) ? $input['languages'] : explode( ',', $input['languages'] );
			$codes = array_values( array_unique( array_filter( array_map( 'sanitize_key', array_map( 'trim', $codes ) ) ) ) );
			$known = self::known_languages();
			$wrong = $known ? array_diff( $codes, array_keys( $known ) ) : array();
			if ( ! $codes || $wrong || count( $codes ) > self::MAX_LANGUAGES ) {
				/* translators: %d: largest number of languages. */
				add_settings_error( self::OPTION, 'languages', sprintf( __( 'Choose 1 to %d of the languages that the service can write. The old choice was left as it was.', 'imgproc-local' ), self::MAX_LANGUAGES ) );
			} else {
				$new['languages'] = $codes;
			}
		}
		foreach ( array( 'on_upload', 'alt', 'optimize', 'keep_originals', 'remove_files' ) as $name ) {
			if ( isset( $input[ $name ] ) ) {
				$new[ $name ] = (bool) $input[ $name ];
			}
		}
		if ( isset( $input['format'] ) ) {
			$new['format'] = in_array( $input['format'], array( 'webp', 'avif' ), true ) ? $input['format'] : '';
		}
		return $new;
	}

	/**
	 * The address without /api/v1 at its end; empty if it can’t be used.
	 *
	 * @param string $address Address as it was entered.
	 * @return string
	 */
	public static function clean_address( $address ) {
		$address = preg_replace( '#/(api(/v1)?/?)?$#', '', trim( (string) $address ) );
		$parts   = wp_parse_url( $address );
		$usable  = isset( $parts['scheme'], $parts['host'] ) && in_array( $parts['scheme'], array( 'http', 'https' ), true )
			&& ! isset( $parts['user'] ) && ! isset( $parts['query'] ) && ! isset( $parts['fragment'] );
		return $usable ? esc_url_raw( $address, array( 'http', 'https' ) ) : '';
	}

	/**
	 * Languages of the service, cached for a day. A failed request is repeated after a minute at the earliest.
	 *
	 * @return array Code => name; empty if the service could not be reached.
	 */
	public static function known_languages() {
		$known = get_transient( 'imgproc_local_languages' );
		if ( is_array( $known ) ) {
			return $known;
		}
		$known = ( new Imgproc_Local_Client() )->languages();
		$known = is_wp_error( $known ) ? array() : $known;
		set_transient( 'imgproc_local_languages', $known, $known ? DAY_IN_SECONDS : MINUTE_IN_SECONDS );
		return $known;
	}

	/**
	 * Tests whether the service answers, has a suitable version, accepts the key and has credits left, in this order.
	 *
	 * @param string|null $address Address; null for the stored one.
	 * @param string|null $key     Key; null for the stored one.
	 * @return array|WP_Error The field balance has the credits; or the error of the first test that fails.
	 */
	public static function test( $address = null, $key = null ) {
		$client    = new Imgproc_Local_Client( $address, $key );
		$languages = $client->languages();
		if ( is_wp_error( $languages ) ) {
			return $languages;
		}
		if ( null === $address || self::get( 'address' ) === $address ) {
			set_transient( 'imgproc_local_languages', $languages, DAY_IN_SECONDS );
		}
		$version = $client->check_version();
		if ( is_wp_error( $version ) ) {
			return $version;
		}
		if ( '' === ( null === $key ? self::key() : $key ) ) {
			return new WP_Error( 'wrong_key', __( 'The service answers, but there is no key. Create one with “imgproc-local keys create” and store it here.', 'imgproc-local' ) );
		}
		$balance = $client->balance();
		if ( is_wp_error( $balance ) ) {
			return $balance;
		}
		if ( $balance <= 0 ) {
			return new WP_Error( 'no_credits', __( 'The service accepts the key, but the account has no credits. Add some with “imgproc-local credits grant”.', 'imgproc-local' ) );
		}
		return array( 'balance' => $balance );
	}
}
