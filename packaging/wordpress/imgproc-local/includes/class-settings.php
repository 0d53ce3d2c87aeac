<?php
/**
 * Settings of the plugin and their page.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Stores the option imgproc_local_settings. The key can be set as the constant IMGPROC_LOCAL_KEY in wp-config.php
 * instead. It is never written to a page.
 */
final class Imgproc_Local_Settings {

	const OPTION        = 'imgproc_local_settings';
	const PAGE          = 'imgproc-local';
	const MAX_LANGUAGES = 10;

	/**
	 * Registers the hooks.
	 */
	public static function init() {
		add_action( 'admin_menu', array( __CLASS__, 'add_page' ) );
		add_action( 'admin_init', array( __CLASS__, 'register' ) );
		add_action( 'admin_enqueue_scripts', array( __CLASS__, 'enqueue' ) );
		add_action( 'wp_ajax_imgproc_local_test', array( __CLASS__, 'answer_test' ) );
		add_filter( 'plugin_action_links_' . plugin_basename( IMGPROC_LOCAL_FILE ), array( __CLASS__, 'add_link' ) );
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
	 * Language of the alt text that is stored with an attachment: the first of the settings.
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
	 * Registers the option and the fields of its page.
	 */
	public static function register() {
		register_setting(
			self::PAGE,
			self::OPTION,
			array(
				'type'              => 'array',
				'sanitize_callback' => array( __CLASS__, 'sanitize' ),
				'show_in_rest'      => false,
			)
		);
		add_settings_section( 'service', __( 'Service', 'imgproc-local' ), '__return_null', self::PAGE );
		add_settings_section( 'work', __( 'What to do', 'imgproc-local' ), '__return_null', self::PAGE );
		$fields = array(
			'address'   => array( 'service', __( 'Address', 'imgproc-local' ) ),
			'key'       => array( 'service', __( 'Key', 'imgproc-local' ) ),
			'test'      => array( 'service', __( 'Connection', 'imgproc-local' ) ),
			'languages' => array( 'work', __( 'Languages of the alt texts', 'imgproc-local' ) ),
			'tasks'     => array( 'work', __( 'Tasks', 'imgproc-local' ) ),
			'format'    => array( 'work', __( 'Modern format', 'imgproc-local' ) ),
			'files'     => array( 'work', __( 'Files', 'imgproc-local' ) ),
		);
		foreach ( $fields as $name => $field ) {
			$has_label = in_array( $name, array( 'address', 'key', 'format' ), true );
			add_settings_field(
				$name,
				$field[1],
				array( __CLASS__, 'show_' . $name ),
				self::PAGE,
				$field[0],
				$has_label ? array( 'label_for' => 'imgproc-local-' . $name ) : array()
			);
		}
	}

	/**
	 * Checks what the form has sent. An empty key field leaves the stored key as it is.
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
	 * The address without the path of the interface; empty if it can’t be used.
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
	 * Languages of the service, asked for at most once a day, and once a minute while it does not answer.
	 *
	 * @return array Code => name; empty if the service has never been reached.
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
	 * Tests an address and a key in the order in which something can be wrong.
	 *
	 * @param string|null $address Address; null for the stored one.
	 * @param string|null $key     Key; null for the stored one.
	 * @return array|WP_Error With balance; the first thing that is wrong.
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

	/**
	 * Answers the test button.
	 */
	public static function answer_test() {
		check_ajax_referer( 'imgproc_local_test' );
		if ( ! current_user_can( 'manage_options' ) ) {
			wp_send_json_error( array( 'message' => __( 'You are not allowed to change these settings.', 'imgproc-local' ) ), 403 );
		}
		$address = isset( $_POST['address'] ) ? self::clean_address( sanitize_text_field( wp_unslash( $_POST['address'] ) ) ) : null;
		$key     = isset( $_POST['key'] ) ? sanitize_text_field( wp_unslash( $_POST['key'] ) ) : '';
		if ( '' === $address ) {
			wp_send_json_error( array( 'message' => __( 'The address must begin with http:// or https:// and have a host name, such as http://127.0.0.1:8484.', 'imgproc-local' ) ) );
		}
		$result = self::test( $address, '' === $key ? null : $key );
		if ( is_wp_error( $result ) ) {
			wp_send_json_error(
				array(
					'code'    => $result->get_error_code(),
					'message' => $result->get_error_message(),
				)
			);
		}
		/* translators: %s: number of credits. */
		$message = sprintf( __( 'The service answers and accepts the key. Credits: %s.', 'imgproc-local' ), number_format_i18n( $result['balance'] ) );
		$problem = Imgproc_Local_Background::test_loopback();
		if ( is_wp_error( $problem ) ) {
			$message .= ' ' . $problem->get_error_message();
		}
		wp_send_json_success( array( 'message' => $message ) );
	}

	/**
	 * Adds the page to the menu Settings.
	 */
	public static function add_page() {
		add_options_page( __( 'Imgproc Local', 'imgproc-local' ), __( 'Imgproc Local', 'imgproc-local' ), 'manage_options', self::PAGE, array( __CLASS__, 'show_page' ) );
	}

	/**
	 * Adds a link to the page to the list of plugins.
	 *
	 * @param array $links Links of the plugin.
	 * @return array
	 */
	public static function add_link( $links ) {
		$link = sprintf( '<a href="%s">%s</a>', esc_url( admin_url( 'options-general.php?page=' . self::PAGE ) ), esc_html__( 'Settings', 'imgproc-local' ) );
		return array_merge( array( $link ), (array) $links );
	}

	/**
	 * Loads the script of the test button.
	 *
	 * @param string $hook Page of the admin.
	 */
	public static function enqueue( $hook ) {
		if ( 'settings_page_' . self::PAGE !== $hook ) {
			return;
		}
		wp_enqueue_script( 'imgproc-local-settings', IMGPROC_LOCAL_URL . 'assets/settings.js', array(), IMGPROC_LOCAL_VERSION, true );
		wp_localize_script(
			'imgproc-local-settings',
			'imgprocLocalSettings',
			array(
				'url'     => admin_url( 'admin-ajax.php' ),
				'nonce'   => wp_create_nonce( 'imgproc_local_test' ),
				'testing' => __( 'Testing …', 'imgproc-local' ),
				'failed'  => __( 'WordPress did not answer. Reload the page and try again.', 'imgproc-local' ),
			)
		);
	}

	/**
	 * Prints the page.
	 */
	public static function show_page() {
		?>
		<div class="wrap">
			<h1><?php echo esc_html( get_admin_page_title() ); ?></h1>
			<form action="options.php" method="post">
				<?php
				settings_fields( self::PAGE );
				do_settings_sections( self::PAGE );
				submit_button();
				?>
			</form>
		</div>
		<?php
	}

	/**
	 * Prints the field of the address.
	 */
	public static function show_address() {
		printf(
			'<input type="url" id="imgproc-local-address" name="%s[address]" value="%s" class="regular-text code" required><p class="description">%s</p>',
			esc_attr( self::OPTION ),
			esc_attr( self::get( 'address' ) ),
			esc_html__( 'Where imgproc-local runs. From within Docker: http://host.docker.internal:8484.', 'imgproc-local' )
		);
	}

	/**
	 * Prints the field of the key, which never holds the stored key.
	 */
	public static function show_key() {
		if ( defined( 'IMGPROC_LOCAL_KEY' ) ) {
			echo '<p id="imgproc-local-key">' . esc_html__( 'The key is set by IMGPROC_LOCAL_KEY in wp-config.php.', 'imgproc-local' ) . '</p>';
			return;
		}
		$has_key = '' !== self::key();
		printf(
			'<input type="password" id="imgproc-local-key" name="%s[key]" value="" class="regular-text code" autocomplete="off" placeholder="%s">',
			esc_attr( self::OPTION ),
			esc_attr( $has_key ? __( 'A key is stored', 'imgproc-local' ) : 'imgp_…' )
		);
		if ( $has_key ) {
			printf( ' <label><input type="checkbox" name="%s[remove_key]" value="1"> %s</label>', esc_attr( self::OPTION ), esc_html__( 'Remove the stored key', 'imgproc-local' ) );
		}
		echo '<p class="description">' . esc_html__( 'Created by “imgproc-local keys create”. Leave the field empty to keep the stored key.', 'imgproc-local' ) . '</p>';
	}

	/**
	 * Prints the test button.
	 */
	public static function show_test() {
		printf(
			'<button type="button" class="button" id="imgproc-local-test">%s</button> <span id="imgproc-local-test-result" role="status" aria-live="polite"></span>',
			esc_html__( 'Test the connection', 'imgproc-local' )
		);
	}

	/**
	 * Prints the languages of the service; a text field if the service can’t be reached.
	 */
	public static function show_languages() {
		$chosen = self::get( 'languages' );
		$known  = self::known_languages();
		if ( ! $known ) {
			printf(
				'<input type="text" name="%s[languages]" value="%s" class="regular-text code" aria-label="%s"><p class="description">%s</p>',
				esc_attr( self::OPTION ),
				esc_attr( implode( ',', $chosen ) ),
				esc_attr__( 'Languages of the alt texts', 'imgproc-local' ),
				esc_html__( 'Codes separated by commas, such as de,en. The service could not be asked for its list.', 'imgproc-local' )
			);
			return;
		}
		$known = array_merge( array_intersect_key( array_flip( $chosen ), $known ), $known );
		echo '<fieldset><legend class="screen-reader-text">' . esc_html__( 'Languages of the alt texts', 'imgproc-local' ) . '</legend><div style="columns:12em;max-width:50em">';
		foreach ( $known as $code => $name ) {
			printf(
				'<label style="display:block"><input type="checkbox" name="%s[languages][]" value="%s"%s> <span lang="%s">%s</span></label>',
				esc_attr( self::OPTION ),
				esc_attr( $code ),
				checked( in_array( $code, $chosen, true ), true, false ),
				esc_attr( $code ),
				esc_html( $name )
			);
		}
		echo '</div></fieldset><p class="description">' . esc_html__( 'The first chosen language is stored as the alt text. Each language costs one credit per image.', 'imgproc-local' ) . '</p>';
	}

	/**
	 * Prints the tasks.
	 */
	public static function show_tasks() {
		self::show_checkboxes(
			__( 'Tasks', 'imgproc-local' ),
			array(
				'on_upload' => __( 'Process new images after their upload', 'imgproc-local' ),
				'alt'       => __( 'Write the alt text where it is empty', 'imgproc-local' ),
				'optimize'  => __( 'Replace the file by a smaller one of the same quality', 'imgproc-local' ),
			)
		);
	}

	/**
	 * Prints the choice of the modern format.
	 */
	public static function show_format() {
		$formats = array(
			''     => __( 'None', 'imgproc-local' ),
			'webp' => 'WebP',
			'avif' => 'AVIF',
		);
		printf( '<select id="imgproc-local-format" name="%s[format]">', esc_attr( self::OPTION ) );
		foreach ( $formats as $value => $label ) {
			printf( '<option value="%s"%s>%s</option>', esc_attr( $value ), selected( self::get( 'format' ), $value, false ), esc_html( $label ) );
		}
		echo '</select><p class="description">' . esc_html__( 'Sent to browsers that accept it, where it is smaller. A cache of whole pages has to respect “Vary: Accept”.', 'imgproc-local' );
		if ( ! Imgproc_Local_Encoder::can_write( 'webp' ) ) {
			echo ' ' . esc_html__( 'PHP on this server can’t write WebP, so that only images in full size are sent in the modern format.', 'imgproc-local' );
		} elseif ( ! Imgproc_Local_Encoder::can_write( 'avif' ) ) {
			echo ' ' . esc_html__( 'PHP on this server can’t write AVIF: with AVIF, the smaller sizes of an image are WebP.', 'imgproc-local' );
		}
		echo '</p>';
	}

	/**
	 * Prints what happens to files.
	 */
	public static function show_files() {
		self::show_checkboxes(
			__( 'Files', 'imgproc-local' ),
			array(
				'keep_originals' => __( 'Keep the originals of replaced files', 'imgproc-local' ),
				'remove_files'   => __( 'When the plugin is deleted, remove its WebP and AVIF files and put kept originals back', 'imgproc-local' ),
			)
		);
	}

	/**
	 * Prints checkboxes, with a hidden field each, so that an empty box is sent too.
	 *
	 * @param string $legend Name of the group.
	 * @param array  $boxes  Setting => label.
	 */
	private static function show_checkboxes( $legend, array $boxes ) {
		echo '<fieldset><legend class="screen-reader-text">' . esc_html( $legend ) . '</legend>';
		foreach ( $boxes as $name => $label ) {
			printf(
				'<label><input type="hidden" name="%1$s[%2$s]" value="0"><input type="checkbox" name="%1$s[%2$s]" value="1"%3$s> %4$s</label><br>',
				esc_attr( self::OPTION ),
				esc_attr( $name ),
				checked( self::get( $name ), true, false ),
				esc_html( $label )
			);
		}
		echo '</fieldset>';
	}
}
