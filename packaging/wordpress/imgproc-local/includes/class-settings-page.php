<?php
/**
 * The page of the settings.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Prints the form at Settings → Imgproc Local, and answers its test button.
 */
final class Imgproc_Local_Settings_Page {

	/**
	 * Registers the hooks.
	 */
	public static function init() {
		add_action( 'admin_menu', array( __CLASS__, 'add_page' ) );
		add_action( 'admin_init', array( __CLASS__, 'register' ) );
		add_action( 'admin_enqueue_scripts', array( __CLASS__, 'enqueue' ) );
		add_action( 'wp_ajax_imgproc_local_test', array( __CLASS__, 'answer_test' ) );
		add_filter( 'plugin_action_links_' . plugin_basename( IMGPROC_LOCAL_FILE ), array( __CLASS__, 'add_link' ) );
		add_filter( 'option_page_capability_' . Imgproc_Local_Settings::PAGE, array( 'Imgproc_Local_Settings', 'capability' ) );
	}

	/**
	 * Registers the option and the fields of its page.
	 */
	public static function register() {
		register_setting(
			Imgproc_Local_Settings::PAGE,
			Imgproc_Local_Settings::OPTION,
			array(
				'type'              => 'array',
				'sanitize_callback' => array( 'Imgproc_Local_Settings', 'sanitize' ),
				'show_in_rest'      => false,
			)
		);
		add_settings_section( 'service', __( 'Service', 'imgproc-local' ), '__return_null', Imgproc_Local_Settings::PAGE );
		add_settings_section( 'work', __( 'What to do', 'imgproc-local' ), '__return_null', Imgproc_Local_Settings::PAGE );
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
				Imgproc_Local_Settings::PAGE,
				$field[0],
				$has_label ? array( 'label_for' => 'imgproc-local-' . $name ) : array()
			);
		}
	}

	/**
	 * Adds the page to the Settings menu.
	 */
	public static function add_page() {
		add_options_page( __( 'Imgproc Local', 'imgproc-local' ), __( 'Imgproc Local', 'imgproc-local' ), Imgproc_Local_Settings::capability(), Imgproc_Local_Settings::PAGE, array( __CLASS__, 'show_page' ) );
	}

	/**
	 * Adds a link to this page in the list of plugins.
	 *
	 * @param array $links Links of the plugin.
	 * @return array
	 */
	public static function add_link( $links ) {
		$link = sprintf( '<a href="%s">%s</a>', esc_url( admin_url( 'options-general.php?page=' . Imgproc_Local_Settings::PAGE ) ), esc_html__( 'Settings', 'imgproc-local' ) );
		return array_merge( array( $link ), (array) $links );
	}

	/**
	 * Loads the script of the test button.
	 *
	 * @param string $hook Page of the admin.
	 */
	public static function enqueue( $hook ) {
		if ( 'settings_page_' . Imgproc_Local_Settings::PAGE !== $hook ) {
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
	 * Answers the test button.
	 */
	public static function answer_test() {
		check_ajax_referer( 'imgproc_local_test' );
		if ( ! current_user_can( Imgproc_Local_Settings::capability() ) ) {
			wp_send_json_error( array( 'message' => __( 'You are not allowed to change these settings.', 'imgproc-local' ) ), 403 );
		}
		$address = isset( $_POST['address'] ) ? Imgproc_Local_Settings::clean_address( sanitize_text_field( wp_unslash( $_POST['address'] ) ) ) : null;
		$key     = isset( $_POST['key'] ) ? sanitize_text_field( wp_unslash( $_POST['key'] ) ) : '';
		if ( '' === $address ) {
			wp_send_json_error( array( 'message' => __( 'The address must begin with http:// or https:// and have a host name, such as http://127.0.0.1:8484.', 'imgproc-local' ) ) );
		}
		$result = Imgproc_Local_Settings::test( $address, '' === $key ? null : $key );
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
	 * Prints the page.
	 */
	public static function show_page() {
		?>
		<div class="wrap">
			<h1><?php echo esc_html( get_admin_page_title() ); ?></h1>
			<form action="options.php" method="post">
				<?php
				settings_fields( Imgproc_Local_Settings::PAGE );
				do_settings_sections( Imgproc_Local_Settings::PAGE );
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
			esc_attr( Imgproc_Local_Settings::OPTION ),
			esc_attr( Imgproc_Local_Settings::get( 'address' ) ),
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
		$has_key = '' !== Imgproc_Local_Settings::key();
		printf(
			'<input type="password" id="imgproc-local-key" name="%s[key]" value="" class="regular-text code" autocomplete="off" placeholder="%s">',
			esc_attr( Imgproc_Local_Settings::OPTION ),
			esc_attr( $has_key ? __( 'A key is stored', 'imgproc-local' ) : 'imgp_…' )
		);
		if ( $has_key ) {
			printf( ' <label><input type="checkbox" name="%s[remove_key]" value="1"> %s</label>', esc_attr( Imgproc_Local_Settings::OPTION ), esc_html__( 'Remove the stored key', 'imgproc-local' ) );
		}
		echo '<p class="description">' . esc_html__( 'Created by “imgproc-local keys create”. Leave the field empty to keep the stored key.', 'imgproc-local' ) . '</p>';
	}

	/**
	 * Prints the test button.
	 */
	public static function show_test() {
		printf(
			'<button type="button" class="button" id="imgproc-local-test">%s</button><div id="imgproc-local-test-result" role="status" aria-live="polite"></div>',
			esc_html__( 'Test the connection', 'imgproc-local' )
		);
	}

	/**
	 * Prints checkboxes for the service’s languages, or a text field if the service can’t be reached.
	 */
	public static function show_languages() {
		$chosen = Imgproc_Local_Settings::get( 'languages' );
		$known  = Imgproc_Local_Settings::known_languages();
		if ( ! $known ) {
			printf(
				'<input type="text" name="%s[languages]" value="%s" class="regular-text code" aria-label="%s"><p class="description">%s</p>',
				esc_attr( Imgproc_Local_Settings::OPTION ),
				esc_attr( implode( ',', $chosen ) ),
				esc_attr__( 'Languages of the alt texts', 'imgproc-local' ),
				esc_html__( 'Codes separated by commas, such as de,en. The service could not be asked for its list.', 'imgproc-local' )
			);
			return;
		}
		$known = array_merge( array_intersect_key( array_flip( $chosen ), $known ), $known );
		echo '<fieldset><legend class="screen-reader-text">' . esc_html__( 'Languages of the alt texts', 'imgproc-local' ) . '</legend><div style="display:grid;grid-template-columns:repeat(auto-fill,minmax(12em,1fr));max-width:50em">';
		foreach ( $known as $code => $name ) {
			printf(
				'<label><input type="checkbox" name="%s[languages][]" value="%s"%s> <span lang="%s">%s</span></label>',
				esc_attr( Imgproc_Local_Settings::OPTION ),
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
		printf( '<select id="imgproc-local-format" name="%s[format]">', esc_attr( Imgproc_Local_Settings::OPTION ) );
		foreach ( $formats as $value => $label ) {
			printf( '<option value="%s"%s>%s</option>', esc_attr( $value ), selected( Imgproc_Local_Settings::get( 'format' ), $value, false ), esc_html( $label ) );
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
	 * Prints the choices about originals and about files after the plugin is deleted.
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
	 * Prints checkboxes, each after a hidden field that sends 0 if the box is not checked.
	 *
	 * @param string $legend Name of the group.
	 * @param array  $boxes  Setting => label.
	 */
	private static function show_checkboxes( $legend, array $boxes ) {
		echo '<fieldset><legend class="screen-reader-text">' . esc_html( $legend ) . '</legend>';
		foreach ( $boxes as $name => $label ) {
			printf(
				'<label><input type="hidden" name="%1$s[%2$s]" value="0"><input type="checkbox" name="%1$s[%2$s]" value="1"%3$s> %4$s</label><br>',
				esc_attr( Imgproc_Local_Settings::OPTION ),
				esc_attr( $name ),
				checked( Imgproc_Local_Settings::get( $name ), true, false ),
				esc_html( $label )
			);
		}
		echo '</fieldset>';
	}
}
