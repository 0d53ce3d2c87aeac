<?php
/**
 * The queue of attachments, and the lock of the worker.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * The state of each attachment is in its post meta; the attachments with a due time are the queue. An error of the
 * service, the key or the account pauses the whole queue.
 *
 * Only one process at a time may work on the queue: the one that holds the lock, a row of the options table. It is read and
 * written past the object cache, because other requests have to see it at once, and expires, so that a killed request
 * blocks the queue only for a while. If it expires during a long step, another request repeats the step when it is due
 * again, with the same Idempotency-Key.
 */
final class Imgproc_Local_Queue {

	/**
	 * Keys of post meta. In this order: the array of state(); the name of its state, for queries; the time of its next
	 * step, only while it is queued; whether a person has to write its alt text (1 or 0); the bytes that visitors save.
	 */
	const META            = '_imgproc_local';
	const META_STATE      = '_imgproc_local_state';
	const META_DUE        = '_imgproc_local_due';
	const META_NEEDS_TEXT = '_imgproc_local_needs_text';
	const META_SAVED      = '_imgproc_local_saved';
	const ALL_META        = array( self::META, self::META_STATE, self::META_DUE, self::META_NEEDS_TEXT, self::META_SAVED );

	/**
	 * Value of META_STATE while a waiting attachment is being sent, so that stop() does not delete its post meta meanwhile.
	 * The array of state() still says waiting.
	 */
	const SENDING = 'sending';

	/**
	 * Option: reason, message, until and count of a pause.
	 */
	const PAUSE = 'imgproc_local_pause';

	/**
	 * Option: the lock, its time of expiry and random characters that identify its holder.
	 */
	const LOCK = 'imgproc_local_lock';

	/**
	 * Seconds after which another request may take the lock. It is renewed before every request to the service, which has
	 * a time-out of at most 60 seconds, and before every file that PHP encodes.
	 */
	const LOCK_S = 80;

	/**
	 * Errors that concern every image, with the seconds of the first and the longest pause. Each pause doubles the last.
	 */
	const PAUSES = array(
		'service_down'   => array( 15, 120 ),
		'wrong_key'      => array( 60, 600 ),
		'no_credits'     => array( 60, 600 ),
		'wrong_settings' => array( 60, 600 ),
		'old_version'    => array( 300, 600 ),
		'rate_limited'   => array( 5, 60 ),
		'queue_full'     => array( 5, 60 ),
	);

	/**
	 * Pauses that only stop sending: jobs that the service already has are still polled. All others stop both.
	 */
	const SENDING_PAUSES = array( 'no_credits', 'wrong_settings', 'queue_full' );

	/**
	 * Value of the lock while this request holds it; empty otherwise.
	 *
	 * @var string
	 */
	private static $lock = '';

	/**
	 * Takes the lock if it is free or expired.
	 *
	 * @return bool
	 */
	public static function lock() {
		global $wpdb;
		$wpdb->query( $wpdb->prepare( "DELETE FROM $wpdb->options WHERE option_name = %s AND option_value < %s", self::LOCK, (string) time() ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
		$value      = self::new_lock();
		$taken      = $wpdb->query( $wpdb->prepare( "INSERT IGNORE INTO $wpdb->options (option_name, option_value, autoload) VALUES (%s, %s, 'no')", self::LOCK, $value ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
		self::$lock = $taken ? $value : '';
		return (bool) $taken;
	}

	/**
	 * Extends the lock of this request, if it holds one. Call it before and after each long step. Ends PHP if the lock is
	 * gone, because the plugin was deactivated: this request would store data that nobody removes.
	 *
	 * @param string $partial File to delete then.
	 * @return bool Whether this request holds the lock; another one can have taken it after this machine was asleep.
	 */
	public static function renew_lock( $partial = '' ) {
		global $wpdb;
		if ( '' === self::$lock ) {
			return false;
		}
		$value      = self::new_lock();
		$renewed    = $wpdb->query( $wpdb->prepare( "UPDATE $wpdb->options SET option_value = %s WHERE option_name = %s AND option_value = %s", $value, self::LOCK, self::$lock ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
		self::$lock = $renewed ? $value : '';
		if ( ! $renewed && ! self::is_locked() ) {
			if ( '' !== $partial ) {
				wp_delete_file( $partial );
			}
			exit;
		}
		return (bool) $renewed;
	}

	/**
	 * Releases the lock, if this request holds it.
	 */
	public static function unlock() {
		global $wpdb;
		$wpdb->query( $wpdb->prepare( "DELETE FROM $wpdb->options WHERE option_name = %s AND option_value = %s", self::LOCK, self::$lock ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
		self::$lock = '';
	}

	/**
	 * Whether some request holds the lock.
	 *
	 * @return bool
	 */
	public static function is_locked() {
		global $wpdb;
		return (int) $wpdb->get_var( $wpdb->prepare( "SELECT option_value FROM $wpdb->options WHERE option_name = %s", self::LOCK ) ) >= time(); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- past the cache.
	}

	/**
	 * A new value of the lock.
	 *
	 * @return string
	 */
	private static function new_lock() {
		return ( time() + self::LOCK_S ) . ' ' . wp_generate_password( 20, false );
	}

	/**
	 * Adds an attachment to the queue.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $args          texts_only: ask for texts only; force: send even if it is done; preview: replace no alt text; replace: replace proposals that a person has accepted.
	 * @param int   $delay_s       Seconds until it may be sent; negative to put it ahead of others.
	 * @return true|WP_Error The error of Imgproc_Local_Attachment::check().
	 */
	public static function add( int $attachment_id, array $args = array(), int $delay_s = 0 ) {
		if ( Imgproc_Local_Worker::$working_on === $attachment_id ) {
			return true;
		}
		$check = Imgproc_Local_Attachment::check( $attachment_id );
		if ( is_wp_error( $check ) ) {
			if ( 'skipped' === $check->get_error_code() && ! metadata_exists( 'post', $attachment_id, self::META_STATE ) ) {
				self::fail( $attachment_id, array(), $check );
			}
			return $check;
		}
		$state = self::state( $attachment_id );
		if ( 'sent' === $state['state'] ) {
			if ( ! metadata_exists( 'post', $attachment_id, self::META_DUE ) ) {
				self::save( $attachment_id, $state, time() );
				Imgproc_Local_Worker::start();
			}
			return true;
		}
		if ( 'waiting' === $state['state'] && array() === $args && array() === $state['args'] && 0 === $state['attempts'] ) {
			update_post_meta( $attachment_id, self::META_DUE, time() + $delay_s ); // An upload is added again whenever its metadata are generated.
			Imgproc_Local_Worker::start( $delay_s );
			return true;
		}
		if ( ! empty( $args['force'] ) || ( 'failed' === $state['state'] && '' !== $state['job_id'] ) ) {
			$args['again'] = time();
		}
		$state['state']    = 'waiting';
		$state['args']     = $args;
		$state['attempts'] = 0;
		$state['error']    = '';
		$state['job_id']   = '';
		unset( $state['context'], $state['resent'] );
		self::save( $attachment_id, $state, time() + $delay_s );
		Imgproc_Local_Worker::start( $delay_s );
		return true;
	}

	/**
	 * Adds many attachments to the queue.
	 *
	 * @param int[] $ids  Attachments; a few hundred per request.
	 * @param array $args See add().
	 * @return int How many were added.
	 */
	public static function add_many( array $ids, array $args = array() ): int {
		$added = 0;
		update_meta_cache( 'post', $ids );
		foreach ( $ids as $id ) {
			$added += true === self::add( (int) $id, $args ) ? 1 : 0;
		}
		return $added;
	}

	/**
	 * Removes attachments that were not sent yet. Jobs that the service has are finished, because they are paid for.
	 *
	 * @param int $limit Largest number of attachments; a few hundred per request.
	 */
	public static function stop( int $limit = PHP_INT_MAX ) {
		global $wpdb;
		foreach ( array_keys( self::due( 'waiting', PHP_INT_MAX, $limit ) ) as $id ) {
			$taken = $wpdb->query( $wpdb->prepare( "DELETE FROM $wpdb->postmeta WHERE post_id = %d AND meta_key = %s AND meta_value = 'waiting'", $id, self::META_STATE ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
			wp_cache_delete( $id, 'post_meta' );
			$state = self::state( $id );
			if ( $taken && empty( $state['done_at'] ) ) {
				self::forget( $id );
			} elseif ( $taken ) { // Else the worker has claimed it.
				self::finish( $id, $state, 'done' );
			}
		}
	}

	/**
	 * Changes META_STATE atomically, if it has the expected value.
	 *
	 * @param int    $id   Attachment.
	 * @param string $from Value that is expected.
	 * @param string $to   New value.
	 * @return bool Whether it was changed.
	 */
	public static function change_state( $id, $from, $to ) {
		global $wpdb;
		$changed = $wpdb->query( $wpdb->prepare( "UPDATE $wpdb->postmeta SET meta_value = %s WHERE post_id = %d AND meta_key = %s AND meta_value = %s", $to, $id, self::META_STATE, $from ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
		wp_cache_delete( $id, 'post_meta' );
		return (bool) $changed;
	}

	/**
	 * Counts of attachments by state, and the pause in force.
	 *
	 * @return array With waiting, running (at the service), done, failed, skipped, and pause: as pause() returns it.
	 */
	public static function status(): array {
		global $wpdb;
		$rows   = $wpdb->get_results( $wpdb->prepare( "SELECT meta_value AS state, COUNT(*) AS number FROM $wpdb->postmeta WHERE meta_key = %s GROUP BY meta_value", self::META_STATE ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- counts change all the time.
		$counts = array_map( 'intval', wp_list_pluck( $rows, 'number', 'state' ) ) + array_fill_keys( array( 'waiting', self::SENDING, 'sent', 'done', 'failed', 'skipped' ), 0 );
		return array(
			'waiting' => $counts['waiting'] + $counts[ self::SENDING ],
			'running' => $counts['sent'],
			'done'    => $counts['done'],
			'failed'  => $counts['failed'],
			'skipped' => $counts['skipped'],
			'pause'   => self::pause(),
		);
	}

	/**
	 * State of an attachment, without recorded copies that have a name which is_copy_name() refuses.
	 *
	 * @param int $attachment_id Attachment.
	 * @return array At least the fields below; the field state is empty if the attachment was never queued.
	 */
	public static function state( int $attachment_id ): array {
		$stored = get_post_meta( $attachment_id, self::META, true );
		$state  = array_merge(
			array(
				'state'    => '',
				'job_id'   => '',
				'error'    => '',
				'attempts' => 0,
				'args'     => array(),
				'texts'    => array(),
				'files'    => array(),
			),
			is_array( $stored ) ? $stored : array()
		);
		foreach ( $state['files'] as $name => $file ) {
			if ( ! Imgproc_Local_Files::is_copy_name( $file['copy'], $name ) ) {
				unset( $state['files'][ $name ] );
			}
		}
		return $state;
	}

	/**
	 * Stores the state of an attachment, unless the attachment was deleted: nobody would remove its post meta.
	 *
	 * @param int      $attachment_id Attachment.
	 * @param array    $state         State.
	 * @param int|null $due           Time of the next step; null keeps the stored time, 0 removes the attachment from the queue.
	 */
	public static function save( int $attachment_id, array $state, $due = null ) {
		if ( ! self::exists( $attachment_id ) ) {
			return;
		}
		update_post_meta( $attachment_id, self::META, wp_slash( $state ) );
		$is_sending = 'waiting' === $state['state'] && Imgproc_Local_Worker::$working_on === $attachment_id;
		update_post_meta( $attachment_id, self::META_STATE, $is_sending ? self::SENDING : $state['state'] );
		if ( 0 === $due ) {
			delete_post_meta( $attachment_id, self::META_DUE );
		} elseif ( null !== $due ) {
			update_post_meta( $attachment_id, self::META_DUE, $due );
		}
	}

	/**
	 * Whether an attachment is in the database now, whatever the cache says.
	 *
	 * @param int $attachment_id Attachment.
	 * @return bool
	 */
	public static function exists( $attachment_id ) {
		global $wpdb;
		return 'attachment' === $wpdb->get_var( $wpdb->prepare( "SELECT post_type FROM $wpdb->posts WHERE ID = %d", $attachment_id ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- past the cache.
	}

	/**
	 * The pause in force, or null.
	 *
	 * @return array|null With reason, message, until, and of_sending: whether jobs may still be polled.
	 */
	public static function pause() {
		$pause = get_option( self::PAUSE );
		if ( ! is_array( $pause ) || $pause['until'] <= time() ) {
			return null;
		}
		return $pause + array( 'of_sending' => in_array( $pause['reason'], self::SENDING_PAUSES, true ) );
	}

	/**
	 * Ends a pause, because the settings were changed or a request has succeeded.
	 *
	 * @param bool $was_sent False if a job was only polled, which does not end a pause of sending.
	 */
	public static function resume( $was_sent = true ) {
		$pause = get_option( self::PAUSE );
		if ( $pause && ( $was_sent || ! in_array( $pause['reason'], self::SENDING_PAUSES, true ) ) ) {
			delete_option( self::PAUSE );
		}
	}

	/**
	 * When the next step is due, not before the end of a pause that stops it.
	 *
	 * @return int|null Null if the queue is empty.
	 */
	public static function next_due() {
		$pause = self::pause();
		$until = $pause ? $pause['until'] : 0;
		$times = array();
		foreach ( self::due( 'waiting', PHP_INT_MAX, 1 ) as $time ) {
			$times[] = max( $time, $until );
		}
		foreach ( self::due( 'sent', PHP_INT_MAX, 1 ) as $time ) {
			$times[] = $pause && $pause['of_sending'] ? $time : max( $time, $until );
		}
		return $times ? min( $times ) : null;
	}

	/**
	 * Pauses the whole queue.
	 *
	 * @param string   $code  A key of PAUSES.
	 * @param WP_Error $error Error with the message; its retry_after is used if the code is rate_limited.
	 */
	public static function begin_pause( $code, WP_Error $error ) {
		list( $first_s, $longest_s ) = self::PAUSES[ $code ];

		$before = get_option( self::PAUSE );
		$count  = is_array( $before ) && $before['reason'] === $code ? $before['count'] + 1 : 0;
		$data   = $error->get_error_data();
		$wait_s = min( $longest_s, $first_s * ( 2 ** min( $count, 10 ) ) );
		if ( 'rate_limited' === $code && ! empty( $data['retry_after'] ) ) {
			$wait_s = (int) $data['retry_after'];
		}
		update_option(
			self::PAUSE,
			array(
				'reason'  => $code,
				'message' => $error->get_error_message(),
				'until'   => time() + $wait_s,
				'count'   => $count,
			),
			false
		);
	}

	/**
	 * Takes an attachment out of the queue with its final state.
	 *
	 * @param int    $id         Attachment.
	 * @param array  $state      State.
	 * @param string $final_state done, failed or skipped.
	 */
	public static function finish( $id, array $state, $final_state ) {
		unset( $state['context'] );
		$state['state'] = $final_state;
		if ( 'done' === $final_state ) {
			$state['done_at'] = time();
			$state['args']    = array();
		}
		self::save( $id, $state, 0 );
	}

	/**
	 * Takes an attachment out of the queue, because it has failed or is not to be processed.
	 *
	 * @param int      $id    Attachment.
	 * @param array    $state State.
	 * @param WP_Error $error Why; its code is skipped if the settings or the type of the file say so.
	 */
	public static function fail( $id, array $state, WP_Error $error ) {
		$state['error'] = $error->get_error_message();
		self::finish( $id, $state, 'skipped' === $error->get_error_code() ? 'skipped' : 'failed' );
	}

	/**
	 * Removes everything that is stored about an attachment.
	 *
	 * @param int $id Attachment.
	 */
	public static function forget( $id ) {
		foreach ( self::ALL_META as $key ) {
			delete_post_meta( $id, $key );
		}
	}

	/**
	 * Attachments in the queue, the one that has been due longest first. A due time without one of these states, which a
	 * request that was killed can leave behind, does not count.
	 *
	 * @param string $state  waiting (which includes SENDING) or sent.
	 * @param int    $before Latest due time.
	 * @param int    $limit  Largest number of attachments.
	 * @return array<int, int> Attachment => due time.
	 */
	public static function due( $state, $before, $limit ) {
		global $wpdb;
		$also = 'waiting' === $state ? self::SENDING : $state;
		$rows = $wpdb->get_results( // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- past the cache; WP_Query would load whole posts.
			$wpdb->prepare(
				"SELECT due.post_id AS id, CAST(due.meta_value AS SIGNED) AS time FROM $wpdb->postmeta AS due JOIN $wpdb->postmeta AS state ON state.post_id = due.post_id AND state.meta_key = %s
				WHERE due.meta_key = %s AND state.meta_value IN (%s, %s) AND CAST(due.meta_value AS SIGNED) <= %d ORDER BY time, id LIMIT %d",
				array( self::META_STATE, self::META_DUE, $state, $also, $before, $limit )
			)
		);
		return array_map( 'intval', wp_list_pluck( $rows, 'time', 'id' ) );
	}
}
