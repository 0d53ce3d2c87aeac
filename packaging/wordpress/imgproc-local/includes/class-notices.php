<?php
/**
 * Notices in the admin: that the setup is incomplete, why the queue is paused, and how many images failed.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Prints the notices, and words errors and pauses for the bulk page, WP-CLI and the REST API.
 */
final class Imgproc_Local_Notices {

	/**
	 * User meta: how many failed images there were when the user dismissed the notice on them.
	 */
	const DISMISSED = 'imgproc_local_dismissed_failed';

	/**
	 * Registers the hooks.
	 */
	public static function init(): void {
		add_action( 'admin_notices', array( __CLASS__, 'print_notices' ) );
		add_action( 'rest_api_init', array( __CLASS__, 'register_routes' ) );
	}

	/**
	 * Prints the notices of the current screen.
	 *
	 * The media library and the bulk page show a pause with their progress instead, see class-bulk.php. The number of
	 * failed images is shown in the media library.
	 */
	public static function print_notices(): void {
		$screen = get_current_screen();
		if ( ! $screen || ! current_user_can( 'upload_files' ) ) {
			return;
		}
		if ( ! Imgproc_Local_Settings::is_ready() ) {
			self::print_setup( $screen->id );
			return;
		}
		$status = Imgproc_Local_Queue::status();
		if ( in_array( $screen->id, array( 'dashboard', 'media', 'attachment', 'plugins', 'settings_page_imgproc-local' ), true ) ) {
			self::print_pause( $status );
		}
		if ( 'upload' === $screen->id ) {
			self::print_failed( (int) $status['failed'] );
		}
	}

	/**
	 * Prints that the plugin does nothing until it has a key and a task.
	 *
	 * @param string $screen The id of the screen.
	 */
	private static function print_setup( string $screen ): void {
		if ( ! in_array( $screen, array( 'plugins', 'upload', 'media_page_imgproc-local-bulk' ), true ) ) {
			return;
		}
		printf( '<div class="notice notice-info"><p>%s%s</p></div>', esc_html__( 'Imgproc Local does nothing yet: it needs the key of a service, and something to do.', 'imgproc-local' ), self::settings_link() ); // phpcs:ignore WordPress.Security.EscapeOutput.OutputNotEscaped -- settings_link() escapes.
	}

	/**
	 * Prints why the queue is paused.
	 *
	 * @param array $status As returned by Imgproc_Local_Queue::status().
	 */
	private static function print_pause( array $status ): void {
		$message = self::pause_message( $status );
		if ( '' !== $message ) {
			printf( '<div class="notice notice-warning imgproc-local-paused"><p><strong>%s</strong> %s%s</p></div>', esc_html__( 'Imgproc Local:', 'imgproc-local' ), esc_html( $message ), self::settings_link() ); // phpcs:ignore WordPress.Security.EscapeOutput.OutputNotEscaped -- settings_link() escapes.
		}
	}

	/**
	 * Prints how many images failed. Once dismissed, the notice returns only when more have failed.
	 *
	 * @param int $failed Number of failed images.
	 */
	private static function print_failed( int $failed ): void {
		$dismissed = (int) get_user_meta( get_current_user_id(), self::DISMISSED, true );
		if ( $failed < $dismissed ) {
			update_user_meta( get_current_user_id(), self::DISMISSED, $failed ); // Fewer have failed now: show the next failure.
		}
		if ( $failed <= $dismissed ) {
			return;
		}
		/* translators: %s: Number of images. */
		$text = sprintf( _n( 'Imgproc Local could not process %s image.', 'Imgproc Local could not process %s images.', $failed, 'imgproc-local' ), number_format_i18n( $failed ) );
		$link = add_query_arg(
			array(
				'mode'                        => 'list',
				Imgproc_Local_Library::FILTER => 'failed',
			),
			admin_url( 'upload.php' )
		);
		printf(
			'<div class="notice notice-error is-dismissible imgproc-local-failed" data-failed="%d"><p>%s <a href="%s">%s</a></p></div>',
			(int) $failed,
			esc_html( $text ),
			esc_url( $link ),
			esc_html__( 'List them with the reasons', 'imgproc-local' )
		);
	}

	/**
	 * Returns a link to the settings for those who may change them.
	 *
	 * @return string Escaped HTML with a space before it, or an empty string.
	 */
	public static function settings_link(): string {
		if ( ! current_user_can( Imgproc_Local_Settings::capability() ) ) {
			return '';
		}
		return sprintf( ' <a href="%s">%s</a>', esc_url( admin_url( 'options-general.php?page=imgproc-local' ) ), esc_html__( 'Settings', 'imgproc-local' ) );
	}

	/**
	 * Returns why the queue is paused, how many images wait and when it is tried again, or why it is slow; an empty string
	 * if nothing is wrong or no image waits.
	 *
	 * @param array $status As returned by Imgproc_Local_Queue::status().
	 * @return string
	 */
	public static function pause_message( array $status ): string {
		$waiting = (int) $status['waiting'] + (int) $status['running'];
		if ( 0 === $waiting ) {
			return '';
		}
		if ( empty( $status['paused_reason'] ) ) {
			return Imgproc_Local_Background::is_loopback_broken() ? __( 'This site can’t send requests to itself. Images are processed only by WP-Cron, while an admin page is open, and by “wp imgproc process”.', 'imgproc-local' ) : '';
		}
		$parts = array( $status['paused_message'] );
		/* translators: %s: Number of images. */
		$parts[] = sprintf( _n( '%s image waits.', '%s images wait.', $waiting, 'imgproc-local' ), number_format_i18n( $waiting ) );
		if ( ! empty( $status['paused_until'] ) ) {
			/* translators: %s: A time of day. */
			$parts[] = sprintf( __( 'The next try is at %s.', 'imgproc-local' ), wp_date( get_option( 'time_format' ), (int) $status['paused_until'] ) );
		}
		return implode( ' ', $parts );
	}

	/**
	 * Returns an error of the client or the queue as one of the REST API, with an HTTP status.
	 *
	 * @param WP_Error $error An error of the client or the queue.
	 * @return WP_Error
	 */
	public static function rest_error( WP_Error $error ): WP_Error {
		$status = array(
			'no_credits'   => 402,
			'refused'      => 422,
			'skipped'      => 422,
			'rate_limited' => 429,
			'queue_full'   => 503,
		);
		$code   = $error->get_error_code();
		return new WP_Error( 'imgproc_local_' . $code, $error->get_error_message(), array( 'status' => $status[ $code ] ?? 502 ) );
	}

	/**
	 * Registers the route that stores that a user dismissed the notice on failed images.
	 */
	public static function register_routes(): void {
		register_rest_route(
			'imgproc-local/v1',
			'/dismiss',
			array(
				'methods'             => WP_REST_Server::CREATABLE,
				'callback'            => array( __CLASS__, 'rest_dismiss' ),
				'permission_callback' => static function (): bool {
					return current_user_can( 'upload_files' );
				},
				'args'                => array(
					'failed' => array(
						'type'     => 'integer',
						'minimum'  => 0,
						'required' => true,
					),
				),
			)
		);
	}

	/**
	 * Stores the number of failed images that the user has seen.
	 *
	 * @param WP_REST_Request $request With `failed`.
	 * @return WP_REST_Response
	 */
	public static function rest_dismiss( WP_REST_Request $request ): WP_REST_Response {
		update_user_meta( get_current_user_id(), self::DISMISSED, $request['failed'] );
		return new WP_REST_Response( null, 204 );
	}
}
