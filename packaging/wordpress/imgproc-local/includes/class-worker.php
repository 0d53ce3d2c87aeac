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

	/**
	 * Works on the queue, unless another request does.
	 *
	 * @param int $seconds Seconds after which no new step is begun.
	 * @return bool Whether this request got the lock and kept it to the end.
	 */
	public static function run( int $seconds = self::SLICE_S ): bool {
		$lock = new Imgproc_Local_Lock();
		if ( ! $lock->acquire() ) {
			return false;
		}
		register_shutdown_function( array( $lock, 'release' ) );
		$end = microtime( true ) + $seconds;
		while ( true ) {
			if ( ! $lock->renew() ) {
				return false;
			}
			$left = $end - microtime( true );
			$due  = Imgproc_Local_Queue::next_due();
			if ( null === $due || $left <= 0 || $due - time() > self::MAX_IDLE_S ) {
				break;
			}
			if ( $due > time() ) {
				sleep( 1 );
			}
			self::read_options_again();
			if ( $due <= time() ) {
				self::step( (int) $left );
			}
		}
		$lock->release();
		return true;
	}

	/**
	 * Drops or refreshes cached options: another request may have changed the settings or ended a pause.
	 */
	private static function read_options_again() {
		if ( wp_using_ext_object_cache() ) {
			foreach ( array( 'alloptions', 'notoptions', Imgproc_Local_Queue::PAUSE ) as $key ) {
				wp_cache_get( $key, 'options', true );
			}
			return;
		}
		wp_cache_delete( 'alloptions', 'options' );
		wp_cache_delete( 'notoptions', 'options' );
		wp_cache_delete( Imgproc_Local_Queue::PAUSE, 'options' );
	}

	/**
	 * Takes the next step: sends an image that is due if the service has fewer than MAX_SENT jobs, else polls a job.
	 *
	 * @param int $left_s Seconds that are left.
	 */
	private static function step( $left_s ) {
		$may_send = ! Imgproc_Local_Queue::is_sending_paused() && count( Imgproc_Local_Queue::due( 'sent', PHP_INT_MAX, self::MAX_SENT ) ) < self::MAX_SENT;
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
			Imgproc_Local_Queue::remove_orphaned_due();
			return;
		}
		$id = (int) reset( $ids );
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
			$state['error'] = '' !== $state['error'] ? $state['error'] : __( 'PHP was ended repeatedly while it worked on this file.', 'imgproc-local' );
			Imgproc_Local_Queue::finish( $id, $state, 'failed' );
			return;
		}
		if ( 'waiting' === $state['state'] && ! Imgproc_Local_Queue::claim( $id ) ) {
			return;
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
		$request = Imgproc_Local_Source::request( $id, $state['args'], $state );
		if ( is_wp_error( $request ) ) {
			$state['error'] = $request->get_error_message();
			Imgproc_Local_Queue::finish( $id, $state, 'skipped' === $request->get_error_code() ? 'skipped' : 'failed' );
			return;
		}
		if ( empty( $state['args']['again'] ) ) {
			if ( Imgproc_Local_Attachment::is_done( $id, $request, $state ) ) {
				Imgproc_Local_Attachment::finish_unsent( $id, $client, $state );
				return;
			}
			$twin = Imgproc_Local_Attachment::twin( $id, $request );
			if ( 'sent' === $twin['state'] ) { // The same file is being processed for another attachment.
				--$state['attempts'];
				Imgproc_Local_Queue::save( $id, $state, time() + 5 );
				return;
			}
			if ( 'done' === $twin['state'] ) {
				Imgproc_Local_Attachment::copy_file_fields( $twin, $state );
				if ( $twin['done_options'] === $request['options'] ) {
					$state['texts'] = $twin['texts'];
					Imgproc_Local_Attachment::finish_unsent( $id, $client, $state );
					return;
				}
				$state['args']['texts_only'] = true; // The other attachment was processed with other options.
				$request                     = Imgproc_Local_Source::request( $id, $state['args'], $state );
				if ( is_wp_error( $request ) ) {
					Imgproc_Local_Attachment::finish_unsent( $id, $client, $state );
					return;
				}
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
		if ( ! $is_own_result && '' === Imgproc_Local_Originals::find( get_attached_file( $id ), $state ) ) {
			$state['original_bytes'] = $request['published_bytes'];
		}
		$state['state']        = 'sent';
		$state['attempts']     = 0;
		$state['error']        = '';
		$state['job_id']       = $answer['job_id'];
		$state['sent_at']      = time();
		$state['sent_to']      = $client->fingerprint();
		$state['sent_options'] = $request['options'];
		$state['sent_sha256']  = $request['sha256'];
		$state['may_replace']  = ! $is_own_result;
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
		if ( $state['sent_to'] !== $client->fingerprint() ) { // The address or the key was changed.
			self::requeue( $id, $state );
			return;
		}
		$job = $client->job( $state['job_id'], $wait_s );
		if ( is_wp_error( $job ) ) {
			if ( 'not_found' === $job->get_error_code() ) {
				self::requeue( $id, $state );
			} else {
				self::handle_error( $id, $state, $job );
			}
			return;
		}
		Imgproc_Local_Queue::resume( false );
		if ( ! in_array( $job['status'], array( 'completed', 'done', 'failed' ), true ) ) {
			--$state['attempts'];
			if ( time() - $state['sent_at'] > self::MAX_JOB_S ) {
				$state['error'] = __( 'The service did not finish this image within a day.', 'imgproc-local' );
				Imgproc_Local_Queue::finish( $id, $state, 'failed' );
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
		$state['resent'] = isset( $state['resent'] ) ? $state['resent'] + 1 : 1;
		if ( $state['resent'] > self::MAX_ATTEMPTS ) {
			$state['error'] = __( 'The service has lost the job of this image repeatedly.', 'imgproc-local' );
			Imgproc_Local_Queue::finish( $id, $state, 'failed' );
			return;
		}
		$state['state']    = 'waiting';
		$state['job_id']   = '';
		$state['attempts'] = 0;
		Imgproc_Local_Queue::save( $id, $state, time() );
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
			if ( is_wp_error( $health ) ) {
				$code  = 'service_down';
				$error = $health;
			} else {
				$code = 'of_picture';
			}
		}
		if ( isset( Imgproc_Local_Queue::PAUSES[ $code ] ) ) {
			--$state['attempts'];
			Imgproc_Local_Queue::save( $id, $state, time() );
			Imgproc_Local_Queue::begin_pause( $code, $error );
			return;
		}
		$state['error'] = $error->get_error_message();
		if ( 'refused' === $code || $state['attempts'] >= self::MAX_ATTEMPTS ) {
			Imgproc_Local_Queue::finish( $id, $state, 'failed' );
			return;
		}
		Imgproc_Local_Queue::save( $id, $state ); // step() has set when the next attempt is due.
	}
}
