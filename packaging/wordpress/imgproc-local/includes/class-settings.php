<?php
/**
 * Settings of the plugin and their page.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Reads and checks the option imgproc_local_settings, prints the page Settings → Imgproc Local, and tests the connection.
 * The constant IMGPROC_LOCAL_KEY in wp-config.php takes precedence over the stored key. No page ever contains the key.
 */
final class Imgproc_Local_Settings {

	const OPTION        = 'imgproc_local_settings';
	const PAGE          = 'imgproc-local';
	const MAX_LANGUAGES = 10;
	const KNOWN         = 'imgproc_local_languages';

	/**
	 * Registers the hooks.
	 */
	public static function init() {
		add_action( 'admin_menu', array( __CLASS__, 'add_page' ) );
		add_action( 'admin_init', array( __CLASS__, 'register' ) );
		add_action( 'rest_api_init', array( __CLASS__, 'register_route' ) );
		add_filter( 'plugin_action_links_' . plugin_basename( IMGPROC_LOCAL_FILE ), array( __CLASS__, 'add_link' ) );
		add_filter( 'option_page_capability_' . self::PAGE, array( __CLASS__, 'capability' ) );
	}

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
		$new   = (array) get_option( self::OPTION, array() ) + self::defaults();

		if ( isset( $input['address'] ) ) {
			$address = self::clean_address( $input['address'] );
			if ( is_wp_error( $address ) ) {
				add_settings_error( self::OPTION, 'address', $address->get_error_message() );
			} else {
				$new['address'] = $address;
			}
		}
		if ( ! empty( $input['remove_key'] ) ) {
			$new['key'] = '';
		} elseif ( isset( $input['key'] ) && '' !== trim( $input['key'] ) ) {
			$new['key'] = sanitize_text_field( $input['key'] );
		}
		if ( isset( $input['languages'] ) ) {
			$codes = array_values( array_filter( array_unique( array_map( 'sanitize_key', (array) $input['languages'] ) ) ) );
			if ( $codes && count( $codes ) <= self::MAX_LANGUAGES ) {
				$new['languages'] = $codes;
			} else {
				/* translators: %d: largest number of languages. */
				add_settings_error( self::OPTION, 'languages', sprintf( __( 'Choose 1 to %d languages. The old choice was left as it was.', 'imgproc-local' ), self::MAX_LANGUAGES ) );
			}
		}
		foreach ( array( 'on_upload', 'alt', 'optimize', 'keep_originals', 'remove_files' ) as $name ) {
			$new[ $name ] = (bool) ( $input[ $name ] ?? $new[ $name ] );
		}
		if ( isset( $input['format'] ) ) {
			$new['format'] = in_array( $input['format'], array_keys( Imgproc_Local_Files::FORMATS ), true ) ? $input['format'] : '';
		}
		return $new;
	}

	/**
	 * The address without /api/v1 at its end.
	 *
	 * @param string $address Address as it was entered.
	 * @return string|WP_Error An error if it can’t be used.
	 */
	private static function clean_address( $address ) {
		$address = preg_replace( '#/(api(/v1)?/?)?$#', '', trim( (string) $address ) );
		$parts   = (array) wp_parse_url( $address );
		$usable  = isset( $parts['scheme'], $parts['host'] ) && in_array( $parts['scheme'], array( 'http', 'https' ), true )
			&& ! array_intersect_key( $parts, array_flip( array( 'user', 'query', 'fragment' ) ) );
		return $usable ? esc_url_raw( $address ) : new WP_Error( 'address', __( 'The address must begin with http:// or https:// and have a host name, such as http://127.0.0.1:8484.', 'imgproc-local' ) );
	}

	/**
	 * Languages of the service, cached for a day. A failed request is repeated after a minute at the earliest.
	 *
	 * @return array Code => name; empty if the service could not be reached.
	 */
	private static function known_languages() {
		$known = get_transient( self::KNOWN );
		if ( ! is_array( $known ) ) {
			$known = ( new Imgproc_Local_Client() )->languages();
			$known = is_wp_error( $known ) ? array() : $known;
			set_transient( self::KNOWN, $known, $known ? DAY_IN_SECONDS : MINUTE_IN_SECONDS );
		}
		return $known;
	}

	/**
	 * Tests whether the service answers, is not too old to know its credits, accepts the key and has credits left.
	 *
	 * @param string|null $address Address; null for the stored one.
	 * @param string|null $key     Key; null for the stored one.
	 * @return string|WP_Error What to tell the user; or the error of the first test of the service that fails.
	 */
	public static function test( $address = null, $key = null ) {
		$client    = new Imgproc_Local_Client( $address, $key );
		$languages = $client->languages();
		if ( is_wp_error( $languages ) ) {
			return $languages;
		}
		if ( null === $address || self::get( 'address' ) === $address ) {
			set_transient( self::KNOWN, $languages, DAY_IN_SECONDS );
		}
		$balance = $client->balance();
		if ( is_wp_error( $balance ) ) {
			return $balance;
		}
		if ( $balance <= 0 ) {
			return new WP_Error( 'no_credits', __( 'The service accepts the key, but the account has no credits. Add some with “imgproc-local credits grant”.', 'imgproc-local' ) );
		}
		/* translators: %s: number of credits. */
		$message = sprintf( __( 'The service answers and accepts the key. Credits: %s.', 'imgproc-local' ), number_format_i18n( $balance ) );
		return trim( $message . ' ' . Imgproc_Local_Worker::loopback_problem() );
	}

	/**
	 * Registers the route of the test button.
	 */
	public static function register_route() {
		$may  = function () {
			return current_user_can( self::capability() );
		};
		$text = array( 'type' => 'string' );
		imgproc_local_route( '/test', 'POST', array( __CLASS__, 'rest_test' ), $may, array_fill_keys( array( 'address', 'key' ), $text ) );
	}

	/**
	 * Answers the test button, which sends what is in the fields of the form.
	 *
	 * @param WP_REST_Request $request With address and key.
	 * @return string|WP_Error
	 */
	public static function rest_test( WP_REST_Request $request ) {
		$address = self::clean_address( $request['address'] );
		$result  = is_wp_error( $address ) ? $address : self::test( $address, $request['key'] ? sanitize_text_field( $request['key'] ) : null );
		if ( is_wp_error( $result ) ) {
			$result->add_data( array( 'status' => 422 ) );
		}
		return $result;
	}

	/**
	 * Registers the option.
	 */
	public static function register() {
		register_setting( self::PAGE, self::OPTION, array( 'sanitize_callback' => array( __CLASS__, 'sanitize' ) ) );
	}

	/**
	 * Adds the page to the Settings menu.
	 */
	public static function add_page() {
		$hook = add_options_page( 'Imgproc Local', 'Imgproc Local', self::capability(), self::PAGE, array( __CLASS__, 'show_page' ) );
		add_action(
			"load-$hook",
			function () {
				imgproc_local_enqueue( 'settings' );
			}
		);
	}

	/**
	 * A link to the page for those who may change the settings.
	 *
	 * @return string Escaped HTML, or an empty string.
	 */
	public static function link() {
		return current_user_can( self::capability() ) ? sprintf( '<a href="%s">%s</a>', esc_url( admin_url( 'options-general.php?page=' . self::PAGE ) ), esc_html__( 'Settings', 'imgproc-local' ) ) : '';
	}

	/**
	 * Adds the link in the list of plugins.
	 *
	 * @param array $links Links of the plugin.
	 * @return array
	 */
	public static function add_link( $links ) {
		return array_merge( array_filter( array( self::link() ) ), (array) $links );
	}

	/**
	 * Prints the page.
	 */
	public static function show_page() {
		$tasks = array(
			'on_upload' => __( 'Process new images after their upload', 'imgproc-local' ),
			'alt'       => __( 'Write the alt text where it is empty', 'imgproc-local' ),
			'optimize'  => __( 'Replace the file by a smaller one of the same quality', 'imgproc-local' ),
		);
		$files = array(
			'keep_originals' => __( 'Keep the originals of replaced files', 'imgproc-local' ),
			'remove_files'   => __( 'When the plugin is deleted, remove its copies in modern formats and put kept originals back', 'imgproc-local' ),
		);
		?>
		<div class="wrap">
			<h1><?php echo esc_html( get_admin_page_title() ); ?></h1>
			<form action="options.php" method="post">
				<?php settings_fields( self::PAGE ); ?>
				<table class="form-table" role="presentation">
					<tr><th scope="row"><label for="imgproc-local-address"><?php esc_html_e( 'Address', 'imgproc-local' ); ?></label></th><td>
						<input type="url" id="imgproc-local-address" name="imgproc_local_settings[address]" value="<?php echo esc_attr( self::get( 'address' ) ); ?>" class="regular-text code" required>
						<p class="description"><?php esc_html_e( 'Where imgproc-local runs. From within Docker: http://host.docker.internal:8484.', 'imgproc-local' ); ?></p>
					</td></tr>
					<tr><th scope="row"><label for="imgproc-local-key"><?php esc_html_e( 'Key', 'imgproc-local' ); ?></label></th><td><?php self::show_key(); ?></td></tr>
					<tr><th scope="row"><?php esc_html_e( 'Connection', 'imgproc-local' ); ?></th><td>
						<button type="button" class="button" id="imgproc-local-test"><?php esc_html_e( 'Test the connection', 'imgproc-local' ); ?></button>
						<div id="imgproc-local-test-result" role="status"></div>
					</td></tr>
					<tr><th scope="row" id="imgproc-local-languages"><?php esc_html_e( 'Languages of the alt texts', 'imgproc-local' ); ?></th><td><?php self::show_languages(); ?></td></tr>
					<tr><th scope="row"><?php esc_html_e( 'Tasks', 'imgproc-local' ); ?></th><td><?php self::show_checkboxes( $tasks ); ?></td></tr>
					<tr><th scope="row"><label for="imgproc-local-format"><?php esc_html_e( 'Modern format', 'imgproc-local' ); ?></label></th><td><?php self::show_format(); ?></td></tr>
					<tr><th scope="row"><?php esc_html_e( 'Files', 'imgproc-local' ); ?></th><td><?php self::show_checkboxes( $files ); ?></td></tr>
				</table>
				<?php submit_button(); ?>
			</form>
		</div>
		<?php
	}

	/**
	 * Prints the field of the key, which never holds the stored key.
	 */
	private static function show_key() {
		if ( defined( 'IMGPROC_LOCAL_KEY' ) ) {
			echo '<p id="imgproc-local-key">' . esc_html__( 'The key is set by IMGPROC_LOCAL_KEY in wp-config.php.', 'imgproc-local' ) . '</p>';
			return;
		}
		?>
		<input type="password" id="imgproc-local-key" name="imgproc_local_settings[key]" class="regular-text code" autocomplete="off">
		<?php if ( '' !== self::key() ) : ?>
			<label><input type="checkbox" name="imgproc_local_settings[remove_key]" value="1"> <?php esc_html_e( 'Remove the stored key', 'imgproc-local' ); ?></label>
		<?php endif; ?>
		<p class="description"><?php esc_html_e( 'Created by “imgproc-local keys create”. Leave the field empty to keep the stored key.', 'imgproc-local' ); ?></p>
		<?php
	}

	/**
	 * Prints checkboxes for the chosen languages, and for those of the service if it can be reached.
	 */
	private static function show_languages() {
		$chosen = self::get( 'languages' );
		$known  = self::known_languages();
		$hint   = $known ? __( 'The first chosen language is stored as the alt text. Each language costs one credit per image.', 'imgproc-local' ) : __( 'The service could not be asked for its languages.', 'imgproc-local' );
		echo '<fieldset aria-labelledby="imgproc-local-languages" style="columns:12em;max-width:50em">';
		foreach ( array_merge( array_combine( $chosen, $chosen ), $known ) as $code => $name ) {
			printf(
				'<label><input type="checkbox" name="imgproc_local_settings[languages][]" value="%1$s"%2$s> <span lang="%1$s">%3$s</span></label><br>',
				esc_attr( $code ),
				checked( in_array( $code, $chosen, true ), true, false ),
				esc_html( $name )
			);
		}
		echo '</fieldset><p class="description">' . esc_html( $hint ) . '</p>';
	}

	/**
	 * Prints the choice of the modern format.
	 */
	private static function show_format() {
		echo '<select id="imgproc-local-format" name="imgproc_local_settings[format]"><option value="">' . esc_html__( 'None', 'imgproc-local' ) . '</option>';
		foreach ( Imgproc_Local_Files::FORMATS as $format => $name ) {
			printf( '<option value="%s"%s>%s</option>', esc_attr( $format ), selected( self::get( 'format' ), $format, false ), esc_html( $name ) );
		}
		echo '</select><p class="description">' . esc_html__( 'Sent to browsers that accept it, where it is smaller. A cache of whole pages has to respect “Vary: Accept”.', 'imgproc-local' ) . '</p>';
	}

	/**
	 * Prints checkboxes, each after a hidden field that sends 0 if the box is not checked.
	 *
	 * @param array $boxes Setting => label.
	 */
	private static function show_checkboxes( array $boxes ) {
		foreach ( $boxes as $name => $label ) {
			printf(
				'<label><input type="hidden" name="%1$s" value="0"><input type="checkbox" name="%1$s" value="1"%2$s> %3$s</label><br>',
				esc_attr( self::OPTION . "[$name]" ),
				checked( self::get( $name ), true, false ),
				esc_html( $label )
			);
		}
	}
}
