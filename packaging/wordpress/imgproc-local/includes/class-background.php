<?php
/**
 * Starts background requests and keeps them going.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * While the queue is not empty, a chain of short requests of the site to itself works on it. WP-Cron continues a chain
 * that was broken. Where the site can’t send requests to itself (basic authentication, a container in which the
 * site's public address leads nowhere), the heartbeat of an open admin page does the work, or WP-CLI.
 */
final class Imgproc_Local_Background {

	const CRON = 'imgproc_local_cron';

	/**
	 * Option: `unanswered`, the time since which no request of the site to itself has arrived; 0 if the last one has.
	 */
	const UNANSWERED = 'imgproc_local_started';

	/**
	 * Seconds without an arrival after which the site is considered unable to send requests to itself.
	 */
	const LOST_AFTER_S = 30;

	/**
	 * start() sends a request for work that is due within these seconds. Later work is left to WP-Cron.
	 */
	const SOON_S = 5;

	/**
	 * Whether a request to the site itself will be sent at the end of this one.
	 *
	 * @var bool
	 */
	private static $will_send = false;

	/**
	 * Registers the hooks.
	 */
	public static function init() {
		add_filter( 'cron_schedules', array( __CLASS__, 'add_schedule' ) ); // phpcs:ignore WordPress.WP.CronInterval -- only while the queue is not empty.
		add_action( self::CRON, array( __CLASS__, 'work' ) );
		add_action( 'wp_ajax_imgproc_local_run', array( __CLASS__, 'answer' ) );
		add_action( 'wp_ajax_nopriv_imgproc_local_run', array( __CLASS__, 'answer' ) );
		add_action( 'admin_init', array( __CLASS__, 'continue_broken_chain' ) );
		add_action( 'heartbeat_tick', array( __CLASS__, 'work_after_heartbeat' ) );
		add_action( 'update_option_' . Imgproc_Local_Settings::OPTION, array( __CLASS__, 'settings_changed' ) );
	}

	/**
	 * Adds the interval of the cron event.
	 *
	 * @param array $schedules Intervals of WP-Cron.
	 * @return array
	 */
	public static function add_schedule( $schedules ) {
		$schedules['imgproc_local_minute'] = array(
			'interval' => MINUTE_IN_SECONDS,
			'display'  => __( 'Every minute (Imgproc Local, while images wait)', 'imgproc-local' ),
		);
		return $schedules;
	}

	/**
	 * Arranges that the queue is worked on after this request.
	 *
	 * @param int $delay_s Seconds until there is something to do.
	 */
	public static function start( $delay_s = 0 ) {
		if ( ! wp_next_scheduled( self::CRON ) ) {
			wp_schedule_event( time() + max( $delay_s, MINUTE_IN_SECONDS ), 'imgproc_local_minute', self::CRON );
		}
		if ( $delay_s <= self::SOON_S && ! self::$will_send && ! ( defined( 'WP_CLI' ) && WP_CLI ) ) {
			self::$will_send = true;
			add_action( 'shutdown', array( __CLASS__, 'send_request' ) );
		}
	}

	/**
	 * Works for one slice and starts the next one. Called by WP-Cron and by requests of the site to itself.
	 */
	public static function work() {
		if ( function_exists( 'set_time_limit' ) && false === strpos( (string) ini_get( 'disable_functions' ), 'set_time_limit' ) ) {
			set_time_limit( 300 ); // phpcs:ignore Squiz.PHP.DiscouragedFunctions.Discouraged -- a slice ends by itself; this is for slow downloads.
		}
		if ( ! Imgproc_Local_Worker::run() ) {
			return; // Another request works on the queue and starts the next slice, or the plugin was deactivated.
		}
		$due = Imgproc_Local_Queue::next_due();
		if ( null === $due ) {
			wp_clear_scheduled_hook( self::CRON );
			return;
		}
		if ( ! wp_next_scheduled( self::CRON ) ) {
			wp_schedule_event( time() + MINUTE_IN_SECONDS, 'imgproc_local_minute', self::CRON );
		}
		if ( $due - time() <= Imgproc_Local_Worker::MAX_IDLE_S ) {
			self::send_request();
		}
	}

	/**
	 * Answers a request of the site to itself.
	 */
	public static function answer() {
		$token = isset( $_POST['token'] ) ? sanitize_text_field( wp_unslash( $_POST['token'] ) ) : ''; // phpcs:ignore WordPress.Security.NonceVerification.Missing -- the token is checked in the next line; there is no user.
		if ( ! hash_equals( self::token(), $token ) ) {
			wp_die( -1, 403 );
		}
		if ( ! empty( $_POST['ping'] ) ) { // phpcs:ignore WordPress.Security.NonceVerification.Missing -- see above.
			wp_send_json_success( 'pong' );
		}
		ignore_user_abort( true );
		self::end_response();
		$option = get_option( self::UNANSWERED );
		if ( ! empty( $option['unanswered'] ) ) {
			update_option( self::UNANSWERED, array( 'unanswered' => 0 ), false );
		}
		self::work();
		wp_die();
	}

	/**
	 * Sends a request to the site itself and does not wait for its answer. The socket transport disconnects as soon as the
	 * request is written; cURL would wait for up to a second.
	 */
	public static function send_request() {
		if ( Imgproc_Local_Lock::is_held() ) {
			return; // The request that holds the lock sees what was added, and starts the next slice.
		}
		$option = get_option( self::UNANSWERED );
		if ( empty( $option['unanswered'] ) ) {
			update_option( self::UNANSWERED, array( 'unanswered' => time() ), false );
		}
		add_action( 'requests-requests.before_request', array( __CLASS__, 'use_socket' ), 10, 5 );
		self::request( array( 'blocking' => false ) );
		remove_action( 'requests-requests.before_request', array( __CLASS__, 'use_socket' ), 10 );
	}

	/**
	 * Chooses the transport of a request that nobody waits for.
	 *
	 * @param string $url     Address.
	 * @param array  $headers Headers.
	 * @param mixed  $data    Body.
	 * @param string $type    Method.
	 * @param array  $options Options; changed.
	 */
	public static function use_socket( $url, $headers, $data, $type, &$options ) {
		$options['transport']       = class_exists( 'WpOrg\Requests\Transport\Fsockopen' ) ? 'WpOrg\Requests\Transport\Fsockopen' : 'Requests_Transport_fsockopen';
		$options['connect_timeout'] = 1;
	}

	/**
	 * Whether the site can send requests to itself.
	 *
	 * @return true|WP_Error
	 */
	public static function test_loopback() {
		$answer = self::request(
			array(
				'timeout' => 10,
				'body'    => array(
					'token' => self::token(),
					'ping'  => 1,
				),
			)
		);
		$status = is_wp_error( $answer ) ? $answer->get_error_message() : wp_remote_retrieve_response_code( $answer );
		if ( 200 === $status ) {
			delete_option( self::UNANSWERED );
			return true;
		}
		/* translators: %s: HTTP status or technical message. */
		return new WP_Error( 'no_loopback', sprintf( __( 'This site can’t send requests to itself (%s). Images are then processed only by WP-Cron, while an admin page is open, and by “wp imgproc process”.', 'imgproc-local' ), $status ) );
	}

	/**
	 * Whether requests of the site to itself have not arrived for some time.
	 *
	 * @return bool
	 */
	public static function is_loopback_broken() {
		$option = get_option( self::UNANSWERED );
		return ! empty( $option['unanswered'] ) && time() - $option['unanswered'] > self::LOST_AFTER_S;
	}

	/**
	 * Starts the chain again if it was broken, for example by a restart of the web server.
	 */
	public static function continue_broken_chain() {
		$is_own = isset( $_REQUEST['action'] ) && 'imgproc_local_run' === $_REQUEST['action']; // phpcs:ignore WordPress.Security.NonceVerification.Recommended -- only compared.
		if ( $is_own || ! wp_next_scheduled( self::CRON ) ) {
			return;
		}
		$due = Imgproc_Local_Queue::next_due();
		if ( null === $due ) {
			wp_clear_scheduled_hook( self::CRON );
		} elseif ( $due <= time() ) {
			self::start();
		}
	}

	/**
	 * Works on the queue after the answer to a heartbeat, if requests of the site to itself do not arrive.
	 */
	public static function work_after_heartbeat() {
		if ( wp_next_scheduled( self::CRON ) && self::is_loopback_broken() ) {
			add_action(
				'shutdown',
				function () {
					self::end_response();
					Imgproc_Local_Worker::run( 10 );
				}
			);
		}
	}

	/**
	 * Ends a pause and starts work when the settings were changed.
	 */
	public static function settings_changed() {
		delete_transient( 'imgproc_local_languages' );
		Imgproc_Local_Queue::resume();
		if ( null !== Imgproc_Local_Queue::next_due() ) {
			self::start();
		}
	}

	/**
	 * Continues with the queues that were left when the plugin was deactivated. The recurring event follows in work(),
	 * because its interval is not registered during an activation.
	 *
	 * @param bool $network_wide Whether it is activated for all sites of a network.
	 */
	public static function activate( $network_wide = false ) {
		self::on_sites(
			$network_wide,
			function () {
				if ( null !== Imgproc_Local_Queue::next_due() ) {
					wp_schedule_single_event( time(), self::CRON );
				}
			}
		);
	}

	/**
	 * Ends the work when the plugin is deactivated. A request that is at work loses its lock, so that it ends after its step
	 * and starts no other one. The queues are kept for the next activation.
	 *
	 * @param bool $network_wide Whether it is deactivated for all sites of a network.
	 */
	public static function deactivate( $network_wide = false ) {
		self::on_sites(
			$network_wide,
			function () {
				wp_clear_scheduled_hook( self::CRON );
				delete_option( self::UNANSWERED );
				delete_option( Imgproc_Local_Lock::OPTION );
			}
		);
	}

	/**
	 * Does something on this site, or on each site of a network.
	 *
	 * @param bool     $network_wide Whether it concerns all sites of a network.
	 * @param callable $work         What to do.
	 */
	public static function on_sites( $network_wide, callable $work ) {
		if ( ! is_multisite() || ! $network_wide ) {
			$work();
			return;
		}
		$sites = get_sites(
			array(
				'fields' => 'ids',
				'number' => 0,
			)
		);
		foreach ( $sites as $site ) {
			switch_to_blog( $site );
			$work();
			restore_current_blog();
		}
	}

	/**
	 * Sends a request to admin-ajax.php of this site.
	 *
	 * @param array $args Arguments of wp_remote_post().
	 * @return array|WP_Error
	 */
	private static function request( array $args ) {
		$args += array(
			'timeout'     => 1,
			'redirection' => 0,
			'sslverify'   => apply_filters( 'https_local_ssl_verify', false ), // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals -- WordPress’ own filter.
			'body'        => array( 'token' => self::token() ),
		);
		/**
		 * Filters the request of the site to itself, for example to add a header for basic authentication.
		 *
		 * @param array $args Arguments of wp_remote_post().
		 */
		$args = (array) apply_filters( 'imgproc_local_loopback', $args );
		return wp_remote_post( admin_url( 'admin-ajax.php?action=imgproc_local_run' ), $args );
	}

	/**
	 * What proves that a request comes from this site.
	 *
	 * @return string
	 */
	private static function token() {
		return wp_hash( 'imgproc_local_run', 'nonce' );
	}

	/**
	 * Ends the response, so that nobody waits for the work.
	 */
	private static function end_response() {
		if ( function_exists( 'fastcgi_finish_request' ) ) {
			fastcgi_finish_request();
		} elseif ( function_exists( 'litespeed_finish_request' ) ) {
			litespeed_finish_request();
		}
	}
}
