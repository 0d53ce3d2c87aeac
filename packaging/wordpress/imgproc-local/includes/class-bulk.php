<?php
/**
 * The page Media → Imgproc Local: many images at once, with progress, a stop, and the list of what failed.
 *
 * The browser adds images in pages of PAGE_SIZE, so that no request grows with the library. What was added is finished
 * in the background, also when the page is closed.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Shows the bulk page and answers its requests.
 */
final class Imgproc_Local_Bulk {

	/**
	 * Images that one request adds to the queue or removes from it.
	 */
	const PAGE_SIZE = 100;

	/**
	 * The capability that the page needs: it works on the images of all users.
	 */
	const CAPABILITY = 'edit_others_posts';

	/**
	 * Registers the hooks.
	 */
	public static function init(): void {
		add_action( 'admin_menu', array( __CLASS__, 'add_page' ) );
		add_action( 'rest_api_init', array( __CLASS__, 'register_routes' ) );
		add_action( 'admin_enqueue_scripts', array( __CLASS__, 'enqueue_on_library' ) );
		add_action( 'admin_notices', array( __CLASS__, 'print_library_progress' ) );
	}

	/**
	 * Adds the page to the menu Media.
	 */
	public static function add_page(): void {
		$hook = add_media_page( __( 'Imgproc Local', 'imgproc-local' ), __( 'Imgproc Local', 'imgproc-local' ), self::CAPABILITY, 'imgproc-local-bulk', array( __CLASS__, 'print_page' ) );
		if ( $hook ) {
			add_action( 'load-' . $hook, array( __CLASS__, 'enqueue' ) );
		}
	}

	/**
	 * Returns the address of the page.
	 *
	 * @return string
	 */
	public static function url(): string {
		return admin_url( 'upload.php?page=imgproc-local-bulk' );
	}

	/**
	 * Loads the script on the media library, where it shows the progress of the queue.
	 *
	 * @param string $hook The current admin page.
	 */
	public static function enqueue_on_library( string $hook ): void {
		if ( 'upload.php' === $hook && current_user_can( 'upload_files' ) ) {
			self::enqueue();
		}
	}

	/**
	 * Loads the script and the style.
	 */
	public static function enqueue(): void {
		wp_enqueue_style( 'imgproc-local-library', IMGPROC_LOCAL_URL . 'assets/library.css', array(), IMGPROC_LOCAL_VERSION );
		wp_enqueue_script( 'imgproc-local-bulk', IMGPROC_LOCAL_URL . 'assets/bulk.js', array( 'wp-a11y', 'wp-api-fetch', 'wp-i18n' ), IMGPROC_LOCAL_VERSION, true );
		wp_set_script_translations( 'imgproc-local-bulk', 'imgproc-local', IMGPROC_LOCAL_DIR . 'languages' );
		wp_add_inline_script( 'imgproc-local-bulk', 'var imgprocLocalQueue = ' . wp_json_encode( self::queue() ) . ';', 'before' );
	}

	/**
	 * Prints the progress above the media library, hidden if no image waits. The script keeps it up to date.
	 */
	public static function print_library_progress(): void {
		$screen = get_current_screen();
		if ( ! $screen || 'upload' !== $screen->id || ! current_user_can( 'upload_files' ) ) {
			return;
		}
		$queue = self::queue();
		printf(
			'<div class="notice %s imgproc-local-progress-notice"%s>',
			'' === $queue['pause'] ? 'notice-info' : 'notice-warning',
			$queue['waiting'] + $queue['running'] > 0 ? '' : ' hidden'
		);
		self::print_progress( $queue, __( 'Imgproc Local:', 'imgproc-local' ) );
		echo '</div>';
	}

	/**
	 * Prints the progress, the button that stops the queue, and why it is paused.
	 *
	 * @param array  $queue As returned by queue().
	 * @param string $name  What the progress belongs to, where that is not obvious.
	 */
	private static function print_progress( array $queue, string $name = '' ): void {
		$unfinished = $queue['waiting'] + $queue['running'];
		/* translators: %s: Number of images. */
		$text = sprintf( _n( '%s image waits.', '%s images wait.', $unfinished, 'imgproc-local' ), number_format_i18n( $unfinished ) );
		?>
		<div class="imgproc-local-progress">
			<p><strong><?php echo esc_html( $name ); ?></strong> <span id="imgproc-local-progress-text"><?php echo esc_html( $text ); ?></span></p>
			<progress aria-labelledby="imgproc-local-progress-text" max="1" value="0"></progress>
			<?php if ( current_user_can( self::CAPABILITY ) ) : ?>
				<button type="button" class="button hide-if-no-js" data-imgproc-action="stop"><?php esc_html_e( 'Stop', 'imgproc-local' ); ?></button>
			<?php endif; ?>
			<p class="imgproc-local-pause"<?php echo '' === $queue['pause'] ? ' hidden' : ''; ?>>
				<span><?php echo esc_html( $queue['pause'] ); ?></span>
				<?php echo Imgproc_Local_Notices::settings_link(); // phpcs:ignore WordPress.Security.EscapeOutput.OutputNotEscaped -- settings_link() escapes. ?>
			</p>
		</div>
		<?php
	}

	/**
	 * Prints the page.
	 */
	public static function print_page(): void {
		?>
		<div class="wrap imgproc-local-bulk">
			<h1><?php esc_html_e( 'Imgproc Local', 'imgproc-local' ); ?></h1>
			<hr class="wp-header-end">
			<noscript><div class="notice notice-error inline"><p><?php esc_html_e( 'This page needs JavaScript. Without it, use the bulk action of the media library’s list view, or “wp imgproc process”.', 'imgproc-local' ); ?></p></div></noscript>
			<h2><?php esc_html_e( 'Process many images', 'imgproc-local' ); ?></h2>
			<form id="imgproc-local-start">
				<fieldset>
					<legend><?php esc_html_e( 'Which images?', 'imgproc-local' ); ?></legend>
					<?php self::print_choices(); ?>
				</fieldset>
				<p class="description"><?php esc_html_e( 'Alt texts written by people are never replaced. Every image that is processed takes credits of the service. You can leave this page as soon as all images were added; they are finished in the background.', 'imgproc-local' ); ?></p>
				<p><button type="submit" class="button button-primary"><?php esc_html_e( 'Start', 'imgproc-local' ); ?></button></p>
			</form>
			<div class="imgproc-local-progress-box" hidden><?php self::print_progress( self::queue() ); ?></div>
			<h2><?php esc_html_e( 'Failed images', 'imgproc-local' ); ?></h2>
			<div id="imgproc-local-failures"><?php echo Imgproc_Local_Failures::html( 1 ); // phpcs:ignore WordPress.Security.EscapeOutput.OutputNotEscaped -- html() escapes. ?></div>
		</div>
		<?php
	}

	/**
	 * Returns the groups of images that can be processed: their labels by the name of the filter.
	 *
	 * @return array<string, string>
	 */
	private static function choices(): array {
		return array(
			'new'    => __( 'Images that were not processed yet', 'imgproc-local' ),
			'no_alt' => __( 'Images without alt text', 'imgproc-local' ),
			'failed' => __( 'Images that failed', 'imgproc-local' ),
			'all'    => __( 'All images, for example after a change of the settings', 'imgproc-local' ),
		);
	}

	/**
	 * Prints a radio button per group of images with their number.
	 */
	private static function print_choices(): void {
		foreach ( self::choices() as $filter => $label ) {
			printf(
				'<p><label><input type="radio" name="filter" value="%1$s"%2$s> %3$s <span class="imgproc-local-count" data-filter="%1$s">(%4$s)</span></label></p>',
				esc_attr( $filter ),
				checked( $filter, 'new', false ),
				esc_html( $label ),
				esc_html( number_format_i18n( Imgproc_Local_Images::count( $filter ) ) )
			);
		}
	}

	/**
	 * Registers the routes of the page.
	 */
	public static function register_routes(): void {
		$may_see    = static function (): bool {
			return current_user_can( 'upload_files' );
		};
		$may_change = static function (): bool {
			return current_user_can( self::CAPABILITY );
		};
		$page       = array(
			'type'    => 'integer',
			'minimum' => 1,
			'default' => 1,
		);
		self::register_route( '/queue', 'GET', 'rest_queue', $may_see, array() );
		self::register_route( '/queue/stop', 'POST', 'rest_stop', $may_change, array() );
		self::register_route( '/queue/failures', 'GET', 'rest_failures', $may_change, array( 'page' => $page ) );
		self::register_route( '/queue/counts', 'GET', 'rest_counts', $may_change, array() );
		$filter = array(
			'type'     => 'string',
			'enum'     => array_keys( self::choices() ),
			'required' => true,
		);
		$after  = array(
			'type'    => 'integer',
			'minimum' => 0,
			'default' => 0,
		);
		self::register_route(
			'/queue/add',
			'POST',
			'rest_add',
			$may_change,
			array(
				'filter' => $filter,
				'after'  => $after,
			)
		);
		$ids = array(
			'type'     => 'array',
			'items'    => array( 'type' => 'integer' ),
			'maxItems' => self::PAGE_SIZE,
			'required' => true,
		);
		self::register_route( '/queue/add-ids', 'POST', 'rest_add_ids', $may_see, array( 'ids' => $ids ) );
	}

	/**
	 * Registers one route.
	 *
	 * @param string   $path       Below the namespace.
	 * @param string   $method     HTTP method.
	 * @param string   $callback   A method of this class.
	 * @param callable $permission Whether the current user may call it.
	 * @param array    $args       Parameters.
	 */
	private static function register_route( string $path, string $method, string $callback, callable $permission, array $args ): void {
		register_rest_route(
			'imgproc-local/v1',
			$path,
			array(
				'methods'             => $method,
				'callback'            => array( __CLASS__, $callback ),
				'permission_callback' => $permission,
				'args'                => $args,
			)
		);
	}

	/**
	 * Returns the state of the queue as the script reads it.
	 *
	 * @return array{waiting: int, running: int, done: int, failed: int, pause: string}
	 */
	private static function queue(): array {
		$status = Imgproc_Local_Queue::status();
		return array(
			'waiting' => (int) $status['waiting'],
			'running' => (int) $status['running'],
			'done'    => (int) $status['done'],
			'failed'  => (int) $status['failed'],
			'pause'   => Imgproc_Local_Notices::pause_message( $status ),
		);
	}

	/**
	 * Answers with the state of the queue.
	 *
	 * @return WP_REST_Response
	 */
	public static function rest_queue(): WP_REST_Response {
		return new WP_REST_Response( self::queue() );
	}

	/**
	 * Adds the next page of the images that a filter lists to the queue.
	 *
	 * @param WP_REST_Request $request With `filter` and `after`.
	 * @return WP_REST_Response `added`, `queue`, and `after` for the next request (null after the last page).
	 */
	public static function rest_add( WP_REST_Request $request ): WP_REST_Response {
		$ids   = Imgproc_Local_Images::ids( $request['filter'], $request['after'], self::PAGE_SIZE );
		$added = Imgproc_Local_Queue::add_many( Imgproc_Local_Images::editable( $ids ) );
		return new WP_REST_Response(
			array(
				'added' => $added,
				'after' => count( $ids ) < self::PAGE_SIZE ? null : end( $ids ),
				'queue' => self::queue(),
			)
		);
	}

	/**
	 * Adds the given images to the queue.
	 *
	 * @param WP_REST_Request $request With `ids`.
	 * @return WP_REST_Response `added` and `queue`.
	 */
	public static function rest_add_ids( WP_REST_Request $request ): WP_REST_Response {
		$added = Imgproc_Local_Queue::add_many( Imgproc_Local_Images::editable( $request['ids'] ) );
		return new WP_REST_Response(
			array(
				'added' => $added,
				'queue' => self::queue(),
			)
		);
	}

	/**
	 * Removes up to PAGE_SIZE waiting images from the queue. Those that the service has already are finished.
	 *
	 * @return WP_REST_Response
	 */
	public static function rest_stop(): WP_REST_Response {
		Imgproc_Local_Queue::stop( self::PAGE_SIZE );
		return self::rest_queue();
	}

	/**
	 * Answers with a page of the failed images.
	 *
	 * @param WP_REST_Request $request With `page`.
	 * @return WP_REST_Response
	 */
	public static function rest_failures( WP_REST_Request $request ): WP_REST_Response {
		return new WP_REST_Response( array( 'html' => Imgproc_Local_Failures::html( $request['page'] ) ) );
	}

	/**
	 * Answers with the number of images in each group, formatted for people.
	 *
	 * @return WP_REST_Response
	 */
	public static function rest_counts(): WP_REST_Response {
		$counts = array();
		foreach ( array_keys( self::choices() ) as $filter ) {
			$counts[ $filter ] = number_format_i18n( Imgproc_Local_Images::count( $filter ) );
		}
		return new WP_REST_Response( $counts );
	}
}
