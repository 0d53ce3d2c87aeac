<?php
/**
 * The work on the queue.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Sends attachments and polls their jobs, one step at a time, for a bounded number of seconds. Every step can be
 * repeated. An error of the service, the key or the account pauses the queue and does not count as an attempt; an error
 * with one image counts as an attempt at that image only.
 *
 * While the queue is not empty, a chain of short requests of the site to itself works on it. WP-Cron continues a chain
 * that was broken. Where the site can’t send requests to itself (basic authentication, a container in which the
 * site's public address leads nowhere), the heartbeat of an open admin page does the work, or WP-CLI.
 */
final class Imgproc_Local_Worker {

	/**
	 * Seconds after which a background request begins no new step.
	 */
	const SLICE_S = 20;

	/**
	 * Largest number of jobs at the service. It would treat ten or more as a batch, and run them after all others.
	 */
	const MAX_SENT = 4;

	/**
	 * Attempts per image, and seconds from the first and from a later attempt to the next.
	 */
	const MAX_ATTEMPTS = 3;
	const RETRY_S      = array( 60, 300 );

	/**
	 * Seconds after which a job that is still unfinished counts as failed.
	 */
	const MAX_JOB_S = DAY_IN_SECONDS;

	/**
	 * Most seconds that a poll asks the service to wait for the job, with Prefer: wait.
	 */
	const MAX_WAIT_S = 10;

	/**
	 * A background request waits for the next step if that is due within these seconds, because WP-Cron does not run on a
	 * site without visitors.
	 */
	const MAX_IDLE_S = 75;

	/**
	 * Attachment that this request works on; 0 if none.
	 *
	 * @var int
	 */
	public static $working_on = 0;

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
	 * Registers the hooks.
	 */
	public static function init() {
		add_action( self::CRON, array( __CLASS__, 'work' ) );
		add_action( 'wp_ajax_imgproc_local_run', array( __CLASS__, 'answer' ) );
		add_action( 'wp_ajax_nopriv_imgproc_local_run', array( __CLASS__, 'answer' ) );
		add_action( 'admin_init', array( __CLASS__, 'continue_broken_chain' ) );
		add_action( 'heartbeat_tick', array( __CLASS__, 'work_after_heartbeat' ) );
		add_action( 'update_option_' . Imgproc_Local_Settings::OPTION, array( __CLASS__, 'settings_changed' ) );
	}

	/**
	 * Works on the queue, unless another request does.
	 *
	 * @param int $seconds Seconds after which no new step is begun.
	 * @return bool Whether this request got the lock and kept it to the end.
	 */
	public static function run( int $seconds = self::SLICE_S ): bool {
		if ( ! Imgproc_Local_Queue::lock() ) {
			return false;
		}
		register_shutdown_function( array( 'Imgproc_Local_Queue', 'unlock' ) );
		$end = microtime( true ) + $seconds;
		while ( Imgproc_Local_Queue::renew_lock() ) {
			$left = $end - microtime( true );
			$due  = Imgproc_Local_Queue::next_due();
			if ( null === $due || $left <= 0 || $due - time() > self::MAX_IDLE_S ) {
				Imgproc_Local_Queue::unlock();
				return true;
			}
			if ( $due > time() ) {
				sleep( 1 );
			} else {
				self::step( (int) $left );
			}
		}
		return false;
	}

	/**
	 * Takes the next step: sends an image that is due if the service has fewer than MAX_SENT jobs, else polls a job.
	 *
	 * @param int $left_s Seconds that are left.
	 */
	private static function step( $left_s ) {
		$may_send = ! Imgproc_Local_Queue::pause() && count( Imgproc_Local_Queue::due( 'sent', PHP_INT_MAX, self::MAX_SENT ) ) < self::MAX_SENT;
		$ids      = $may_send ? Imgproc_Local_Queue::due( 'waiting', time(), 1 ) : array();
		$wait_s   = 0;
		if ( ! $ids ) {
			$ids    = Imgproc_Local_Queue::due( 'sent', time(), 1 );
			$wait_s = max( 0, min( self::MAX_WAIT_S, $left_s ) );
		}
		if ( ! $ids ) { // An image is due, but the service has MAX_SENT jobs and none is due: poll one early.
			$ids = Imgproc_Local_Queue::due( 'sent', PHP_INT_MAX, 1 );
		}
		if ( ! $ids ) {
			sleep( 1 ); // Another request has emptied the queue just now.
			return;
		}
		$id = (int) key( $ids );
		wp_cache_delete( $id, 'post_meta' );
		wp_cache_delete( $id, 'posts' );
		if ( ! Imgproc_Local_Queue::exists( $id ) ) {
			delete_post_meta( $id, Imgproc_Local_Queue::META_DUE );
			return;
		}
		$state = Imgproc_Local_Queue::state( $id );
		// A killed request may have stored only META or only META_STATE; the latter is what queued this step.
		$state['state'] = 'sent' === get_post_meta( $id, Imgproc_Local_Queue::META_STATE, true ) ? 'sent' : 'waiting';
		if ( $state['attempts'] >= self::MAX_ATTEMPTS ) {
			Imgproc_Local_Queue::fail( $id, $state, new WP_Error( 'died', '' !== $state['error'] ? $state['error'] : __( 'PHP was ended repeatedly while it worked on this file.', 'imgproc-local' ) ) );
			return;
		}
		if ( 'waiting' === $state['state'] && ! Imgproc_Local_Queue::change_state( $id, 'waiting', Imgproc_Local_Queue::SENDING ) && Imgproc_Local_Queue::SENDING !== get_post_meta( $id, Imgproc_Local_Queue::META_STATE, true ) ) {
			return; // It was removed from the queue.
		}
		self::$working_on = $id;
		++$state['attempts']; // Stored before the work, so that an image that crashes PHP is not tried for ever.
		Imgproc_Local_Queue::save( $id, $state, time() + self::RETRY_S[ min( $state['attempts'], count( self::RETRY_S ) ) - 1 ] );
		if ( 'sent' === $state['state'] ) {
			self::poll( $id, $state, $wait_s );
		} else {
			self::send( $id, $state );
			Imgproc_Local_Queue::change_state( $id, Imgproc_Local_Queue::SENDING, 'waiting' ); // Unless it was sent or finished.
		}
		self::$working_on = 0;
	}

	/**
	 * Sends an attachment to the service.
	 *
	 * @param int   $id    Attachment.
	 * @param array $state State.
	 */
	private static function send( $id, array $state ) {
		$client  = new Imgproc_Local_Client();
		$request = Imgproc_Local_Attachment::request( $id, $state['args'], $state );
		if ( is_wp_error( $request ) ) {
			Imgproc_Local_Queue::fail( $id, $state, $request );
			return;
		}
		if ( empty( $state['args']['again'] ) ) {
			$twin    = array( 'state' => '' );
			$is_done = Imgproc_Local_Attachment::is_done( $id, $request, $state );
			if ( ! $is_done ) {
				$twin = Imgproc_Local_Attachment::twin( $id, $request );
			}
			if ( 'sent' === $twin['state'] ) { // The same file is being processed for another attachment.
				--$state['attempts'];
				Imgproc_Local_Queue::save( $id, $state, time() + 5 );
				return;
			}
			if ( 'done' === $twin['state'] ) {
				$state = Imgproc_Local_Attachment::with_files_of( $twin, $state );
				if ( $twin['done_options'] === $request['options'] ) {
					$state['texts'] = $twin['texts'];
					$is_done        = true;
				} else {
					$state['args']['texts_only'] = true; // The other attachment was processed with other options.
					$request                     = Imgproc_Local_Attachment::request( $id, $state['args'], $state );
				}
			}
			if ( $is_done || is_wp_error( $request ) ) {
				Imgproc_Local_Attachment::finish_unsent( $id, $client, $state );
				return;
			}
		}
		if ( isset( $request['fields']['context'] ) ) {
			$state['context'] = $request['fields']['context']; // A repeated request must have the same body.
		}
		$answer = $client->send( $request['path'], $request['operation'], $request['fields'], $request['key'] );
		if ( is_wp_error( $answer ) ) {
			self::handle_error( $id, $state, $answer );
			return;
		}
		Imgproc_Local_Queue::resume();
		unset( $state['context'] );
		$is_own_result = ! empty( $state['replaced'] ) && isset( $state['published_sha256'] ) && $state['published_sha256'] === $request['sha256'];
		if ( ! $is_own_result && '' === Imgproc_Local_Files::original( get_attached_file( $id ), $state ) ) {
			$state['original_bytes'] = $request['published_bytes'];
		}
		$sent  = array(
			'state'        => 'sent',
			'attempts'     => 0,
			'error'        => '',
			'job_id'       => $answer['job_id'],
			'sent_at'      => time(),
			'sent_to'      => $client->fingerprint(),
			'sent_options' => $request['options'],
			'may_replace'  => ! $is_own_result,
		);
		$state = array_merge( $state, $sent );
		Imgproc_Local_Queue::save( $id, $state, time() );
	}

	/**
	 * Polls a job, and applies its result if it has finished.
	 *
	 * @param int   $id     Attachment.
	 * @param array $state  State.
	 * @param int   $wait_s Seconds that the service may wait for the job to finish.
	 */
	private static function poll( $id, array $state, $wait_s ) {
		$client = new Imgproc_Local_Client();
		$job    = $state['sent_to'] === $client->fingerprint()
			? $client->job( $state['job_id'], $wait_s )
			: new WP_Error( 'not_found' ); // The address or the key was changed.
		if ( is_wp_error( $job ) ) {
			'not_found' === $job->get_error_code() ? self::requeue( $id, $state ) : self::handle_error( $id, $state, $job );
			return;
		}
		Imgproc_Local_Queue::resume( false );
		if ( ! in_array( $job['status'], array( 'completed', 'done', 'failed' ), true ) ) {
			--$state['attempts'];
			if ( time() - $state['sent_at'] > self::MAX_JOB_S ) {
				Imgproc_Local_Queue::fail( $id, $state, new WP_Error( 'unfinished', __( 'The service did not finish this image within a day.', 'imgproc-local' ) ) );
			} else {
				Imgproc_Local_Queue::save( $id, $state, time() + ( $wait_s > 0 ? 1 : 3 ) );
			}
			return;
		}
		$result = Imgproc_Local_Attachment::apply_job( $id, $client, $job, $state );
		if ( is_wp_error( $result ) ) {
			self::handle_error( $id, $state, $result );
		}
	}

	/**
	 * Sets an attachment whose job is not at the service back to waiting. It is sent with the same Idempotency-Key, so that
	 * an account that has the job after all is not charged again.
	 *
	 * @param int   $id    Attachment.
	 * @param array $state State.
	 */
	private static function requeue( $id, array $state ) {
		$state['resent'] = ( $state['resent'] ?? 0 ) + 1;
		if ( $state['resent'] > self::MAX_ATTEMPTS ) {
			Imgproc_Local_Queue::fail( $id, $state, new WP_Error( 'lost', __( 'The service has lost the job of this image repeatedly.', 'imgproc-local' ) ) );
		} else {
			$state['state']    = 'waiting';
			$state['job_id']   = '';
			$state['attempts'] = 0;
			Imgproc_Local_Queue::save( $id, $state, time() );
		}
	}

	/**
	 * Decides what follows from an error: a pause of the queue, another attempt, or that this image has failed.
	 *
	 * @param int      $id    Attachment.
	 * @param array    $state State.
	 * @param WP_Error $error Error.
	 */
	private static function handle_error( $id, array $state, WP_Error $error ) {
		$code = $error->get_error_code();
		$data = $error->get_error_data();
		if ( in_array( $code, array( 'time_out', 'service_down', 'server_error' ), true ) && ! isset( $data['retry_after'] ) ) {
			sleep( 1 ); // A service that is shutting down resets connections: wait until it is down.
			$health = ( new Imgproc_Local_Client() )->languages(); // Is the service down, or is it only this image?
			$code   = is_wp_error( $health ) ? 'service_down' : 'of_picture';
			$error  = is_wp_error( $health ) ? $health : $error;
		}
		if ( isset( Imgproc_Local_Queue::PAUSES[ $code ] ) ) {
			--$state['attempts'];
			Imgproc_Local_Queue::save( $id, $state, time() );
			Imgproc_Local_Queue::begin_pause( $code, $error );
		} elseif ( 'refused' === $code || $state['attempts'] >= self::MAX_ATTEMPTS ) {
			Imgproc_Local_Queue::fail( $id, $state, $error );
		} else {
			$state['error'] = $error->get_error_message();
			Imgproc_Local_Queue::save( $id, $state ); // step() has set when the next attempt is due.
		}
	}

	/**
	 * Arranges that the queue is worked on after this request.
	 *
	 * @param int $delay_s Seconds until there is something to do.
	 */
	public static function start( $delay_s = 0 ) {
		self::schedule( $delay_s );
		if ( $delay_s <= self::SOON_S && ! ( defined( 'WP_CLI' ) && WP_CLI ) ) {
			add_action( 'shutdown', array( __CLASS__, 'send_request' ) );
		}
	}

	/**
	 * Has WP-Cron work on the queue in a minute or later, unless it will do so already.
	 *
	 * @param int $delay_s Seconds until there is something to do.
	 */
	private static function schedule( $delay_s = 0 ) {
		if ( ! wp_next_scheduled( self::CRON ) ) {
			wp_schedule_single_event( time() + max( $delay_s, MINUTE_IN_SECONDS ), self::CRON );
		}
	}

	/**
	 * Works for one slice and starts the next one. Called by WP-Cron and by requests of the site to itself.
	 */
	public static function work() {
		if ( function_exists( 'set_time_limit' ) ) {
			set_time_limit( 300 ); // phpcs:ignore Squiz.PHP.DiscouragedFunctions.Discouraged, Generic.PHP.ForbiddenFunctions -- a slice ends by itself; this is for slow downloads.
		}
		self::schedule(); // For the case that this request is killed.
		if ( ! self::run() ) {
			return; // Another request works on the queue and starts the next slice.
		}
		$due = Imgproc_Local_Queue::next_due();
		if ( null === $due ) {
			wp_clear_scheduled_hook( self::CRON );
		} elseif ( $due - time() <= self::MAX_IDLE_S ) {
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
		ignore_user_abort( true );
		self::end_response();
		update_option( self::UNANSWERED, array( 'unanswered' => 0 ), false );
		self::work();
		wp_die();
	}

	/**
	 * Sends a request to the site itself and does not wait for its answer. The socket transport disconnects as soon as the
	 * request is written; cURL would wait for up to a second.
	 */
	public static function send_request() {
		if ( Imgproc_Local_Queue::is_locked() ) {
			return; // The request that holds the lock sees what was added, and starts the next slice.
		}
		$option = get_option( self::UNANSWERED );
		if ( empty( $option['unanswered'] ) ) {
			update_option( self::UNANSWERED, array( 'unanswered' => time() ), false );
		}
		$args = array(
			'blocking'    => false,
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
		add_action( 'requests-requests.before_request', array( __CLASS__, 'use_socket' ), 10, 5 );
		wp_remote_post( admin_url( 'admin-ajax.php?action=imgproc_local_run' ), $args );
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
	 * What follows if requests of the site to itself have not arrived for some time.
	 *
	 * @return string Empty if they arrive.
	 */
	public static function loopback_problem() {
		$option = get_option( self::UNANSWERED );
		if ( empty( $option['unanswered'] ) || time() - $option['unanswered'] <= self::LOST_AFTER_S ) {
			return '';
		}
		return __( 'This site can’t send requests to itself. Images are processed only by WP-Cron, while an admin page is open, and by “wp imgproc process”.', 'imgproc-local' );
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
		if ( wp_next_scheduled( self::CRON ) && '' !== self::loopback_problem() ) {
			add_action(
				'shutdown',
				function () {
					self::end_response();
					self::run( 10 );
				}
			);
		}
	}

	/**
	 * Ends a pause and starts work when the settings were changed.
	 */
	public static function settings_changed() {
		delete_transient( Imgproc_Local_Settings::KNOWN );
		Imgproc_Local_Queue::resume();
		if ( null !== Imgproc_Local_Queue::next_due() ) {
			self::start();
		}
	}

	/**
	 * Continues with the queues that were left when the plugin was deactivated.
	 *
	 * @param bool $network_wide Whether it is activated for all sites of a network.
	 */
	public static function activate( $network_wide = false ) {
		self::on_sites(
			$network_wide,
			function () {
				if ( null !== Imgproc_Local_Queue::next_due() ) {
					self::schedule();
				}
			}
		);
	}

	/**
	 * Ends the work when the plugin is deactivated. A request that is at work loses its lock, so that it ends after its step. The queues are kept for the next activation.
	 *
	 * @param bool $network_wide Whether it is deactivated for all sites of a network.
	 */
	public static function deactivate( $network_wide = false ) {
		self::on_sites(
			$network_wide,
			function () {
				wp_clear_scheduled_hook( self::CRON );
				delete_option( self::UNANSWERED );
				delete_option( Imgproc_Local_Queue::LOCK );
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
		$query = array(
			'fields' => 'ids',
			'number' => 0,
		);
		foreach ( get_sites( $query ) as $site ) {
			switch_to_blog( $site );
			$work();
			restore_current_blog();
		}
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
