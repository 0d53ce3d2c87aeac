<?php
/**
 * The page Media → Imgproc Local: many images at once, with progress and a stop; and the notices of the admin.
 *
 * The browser adds images a page at a time. What was added is finished in the background, also when the page is closed.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Shows the bulk page and answers its requests; prints what is wrong now.
 */
final class Imgproc_Local_Bulk {

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
		add_action( 'admin_enqueue_scripts', array( __CLASS__, 'enqueue' ) );
		add_action( 'admin_notices', array( __CLASS__, 'print_notices' ) );
		add_filter( 'removable_query_args', array( __CLASS__, 'removable_query_args' ) );
	}

	/**
	 * Adds the page to the menu Media.
	 */
	public static function add_page(): void {
		add_media_page( 'Imgproc Local', 'Imgproc Local', self::CAPABILITY, 'imgproc-local-bulk', array( __CLASS__, 'print_page' ) );
	}

	/**
	 * Loads the script of the page.
	 *
	 * @param string $hook The current admin page.
	 */
	public static function enqueue( string $hook ): void {
		if ( 'media_page_imgproc-local-bulk' === $hook ) {
			imgproc_local_enqueue( 'bulk', array(), self::queue() );
		}
	}

	/**
	 * Returns the groups of images that can be processed: their labels by the name of the filter.
	 *
	 * @return array<string, string>
	 */
	private static function choices(): array {
		$all = array( 'all' => __( 'All images, for example after a change of the settings', 'imgproc-local' ) );
		return array_intersect_key( Imgproc_Local_Library::filters(), array_flip( array( 'new', 'no_alt', 'failed' ) ) ) + $all;
	}

	/**
	 * Prints the page.
	 */
	public static function print_page(): void {
		?>
		<div class="wrap imgproc-local-bulk">
			<h1>Imgproc Local</h1>
			<hr class="wp-header-end">
			<noscript><div class="notice notice-error inline"><p><?php esc_html_e( 'This page needs JavaScript. Without it, use the bulk action of the media library’s list view, or “wp imgproc process”.', 'imgproc-local' ); ?></p></div></noscript>
			<form id="imgproc-local-start">
				<fieldset>
					<legend><h2><?php esc_html_e( 'Which images?', 'imgproc-local' ); ?></h2></legend>
					<?php foreach ( self::choices() as $filter => $label ) : ?>
						<p><label>
							<input type="radio" name="filter" value="<?php echo esc_attr( $filter ); ?>"<?php checked( $filter, 'new' ); ?>>
							<?php echo esc_html( $label ); ?>
							(<span class="imgproc-local-count" data-filter="<?php echo esc_attr( $filter ); ?>"><?php echo esc_html( number_format_i18n( Imgproc_Local_Library::count( $filter ) ) ); ?></span>)
						</label></p>
					<?php endforeach; ?>
				</fieldset>
				<p class="description"><?php esc_html_e( 'Alt texts written by people are never replaced. Every image that is processed takes credits of the service. You can leave this page as soon as all images were added; they are finished in the background.', 'imgproc-local' ); ?></p>
				<p><button type="submit" class="button button-primary"><?php esc_html_e( 'Start', 'imgproc-local' ); ?></button></p>
			</form>
			<div class="notice notice-info inline imgproc-local-progress" hidden>
				<p><span id="imgproc-local-progress-text"></span></p>
				<progress aria-labelledby="imgproc-local-progress-text" max="1" value="0"></progress>
				<button type="button" class="button"><?php esc_html_e( 'Stop', 'imgproc-local' ); ?></button>
				<p class="imgproc-local-pause" hidden><span></span> <?php echo wp_kses_post( Imgproc_Local_Settings::link() ); ?></p>
			</div>
			<p><a href="<?php echo esc_url( admin_url( 'upload.php?mode=list&' . Imgproc_Local_Library::FILTER . '=failed' ) ); ?>"><?php esc_html_e( 'List the images that failed, with the reasons', 'imgproc-local' ); ?></a></p>
		</div>
		<?php
	}

	/**
	 * Prints the notices of the current screen: that the setup is incomplete, why the queue is paused, and what was added to
	 * it. The bulk page shows a pause with its progress instead.
	 */
	public static function print_notices(): void {
		$screen = get_current_screen();
		if ( ! $screen || ! current_user_can( 'upload_files' ) ) {
			return;
		}
		if ( ! Imgproc_Local_Settings::is_ready() ) {
			if ( in_array( $screen->id, array( 'plugins', 'upload', 'media_page_imgproc-local-bulk' ), true ) ) {
				self::print_notice( 'info', __( 'Imgproc Local does nothing yet: it needs the key of a service, and something to do.', 'imgproc-local' ), Imgproc_Local_Settings::link() );
			}
			return;
		}
		$pause = self::queue()['pause'];
		if ( '' !== $pause && in_array( $screen->id, array( 'dashboard', 'media', 'upload', 'attachment', 'plugins', 'settings_page_imgproc-local' ), true ) ) {
			self::print_notice( 'warning', 'Imgproc Local: ' . $pause, Imgproc_Local_Settings::link() );
		}
		if ( 'upload' === $screen->id && isset( $_GET['imgproc_local_added'] ) ) { // phpcs:ignore WordPress.Security.NonceVerification.Recommended -- Only a number is shown.
			$added = absint( $_GET['imgproc_local_added'] ); // phpcs:ignore WordPress.Security.NonceVerification.Recommended -- Only a number is shown.
			/* translators: %s: Number of images. */
			self::print_notice( 'success is-dismissible', sprintf( _n( '%s image was added to the queue of Imgproc Local.', '%s images were added to the queue of Imgproc Local.', $added, 'imgproc-local' ), number_format_i18n( $added ) ) );
		}
	}

	/**
	 * Prints a notice.
	 *
	 * @param string $kind The end of its CSS classes.
	 * @param string $text What it says.
	 * @param string $link Escaped HTML after the text.
	 */
	private static function print_notice( string $kind, string $text, string $link = '' ): void {
		printf( '<div class="notice notice-%s"><p>%s %s</p></div>', esc_attr( $kind ), esc_html( $text ), wp_kses_post( $link ) );
	}

	/**
	 * Lets WordPress remove the number of added images from the URL.
	 *
	 * @param string[] $names Query variables.
	 * @return string[]
	 */
	public static function removable_query_args( array $names ): array {
		return array_merge( $names, array( 'imgproc_local_added' ) );
	}

	/**
	 * Returns the state of the queue as the script reads it.
	 *
	 * @return array{waiting: int, running: int, done: int, failed: int, pause: string}
	 */
	private static function queue(): array {
		$status          = Imgproc_Local_Queue::status();
		$status['pause'] = self::pause_message( $status );
		return $status;
	}

	/**
	 * Returns why the queue is paused, how many images wait and when it is tried again, or why it is slow; an empty string
	 * if nothing is wrong or no image waits.
	 *
	 * @param array $status As returned by Imgproc_Local_Queue::status().
	 * @return string
	 */
	public static function pause_message( array $status ): string {
		$waiting = $status['waiting'] + $status['running'];
		if ( 0 === $waiting || ! $status['pause'] ) {
			return $waiting ? Imgproc_Local_Worker::loopback_problem() : '';
		}
		/* translators: 1: Why the queue is paused. 2: Number of images. 3: A time of day. */
		return sprintf( _n( '%1$s %2$s image waits. The next try is at %3$s.', '%1$s %2$s images wait. The next try is at %3$s.', $waiting, 'imgproc-local' ), $status['pause']['message'], number_format_i18n( $waiting ), wp_date( get_option( 'time_format' ), $status['pause']['until'] ) );
	}

	/**
	 * Registers the routes of the queue.
	 */
	public static function register_routes(): void {
		$may_see  = static function (): bool {
			return current_user_can( 'upload_files' );
		};
		$may_stop = static function (): bool {
			return current_user_can( self::CAPABILITY );
		};
		$may_add  = static function ( WP_REST_Request $request ): bool {
			return current_user_can( isset( $request['ids'] ) ? 'upload_files' : self::CAPABILITY );
		};
		$ids      = Imgproc_Local_Library::IDS;
		$filter   = array(
			'type' => 'string',
			'enum' => array_keys( self::choices() ),
		);
		$after    = array( 'type' => 'integer' );
		imgproc_local_route( '/queue', 'GET', array( __CLASS__, 'rest_queue' ), $may_see );
		imgproc_local_route( '/queue', 'POST', array( __CLASS__, 'rest_add' ), $may_add, compact( 'ids', 'filter', 'after' ) );
		imgproc_local_route( '/queue/stop', 'POST', array( __CLASS__, 'rest_stop' ), $may_stop );
	}

	/**
	 * Returns the state of the queue, and to those who may see the page the number of images in each group, formatted for
	 * people, unless images wait.
	 *
	 * @return array
	 */
	public static function rest_queue(): array {
		$queue = self::queue();
		if ( 0 === $queue['waiting'] + $queue['running'] && current_user_can( self::CAPABILITY ) ) {
			foreach ( array_keys( self::choices() ) as $filter ) {
				$queue['counts'][ $filter ] = number_format_i18n( Imgproc_Local_Library::count( $filter ) );
			}
		}
		return $queue;
	}

	/**
	 * Adds the given images, or the next page of those that a filter lists, to the queue.
	 *
	 * @param WP_REST_Request $request With `ids`, or with `filter` and `after`.
	 * @return array `added`: how many; `after` for the next request, null after the last page; and `queue`.
	 */
	public static function rest_add( WP_REST_Request $request ): array {
		$ids   = $request['ids'] ?? Imgproc_Local_Library::ids( (string) $request['filter'], (int) $request['after'], Imgproc_Local_Library::PAGE_SIZE );
		$added = Imgproc_Local_Queue::add_many( Imgproc_Local_Library::editable( $ids ) );
		return array(
			'added' => $added,
			'after' => count( $ids ) < Imgproc_Local_Library::PAGE_SIZE ? null : end( $ids ),
			'queue' => self::queue(),
		);
	}

	/**
	 * Removes a page of waiting images from the queue. Those that the service has already are finished.
	 *
	 * @return array The state of the queue.
	 */
	public static function rest_stop(): array {
		Imgproc_Local_Queue::stop( Imgproc_Local_Library::PAGE_SIZE );
		return self::queue();
	}
}
