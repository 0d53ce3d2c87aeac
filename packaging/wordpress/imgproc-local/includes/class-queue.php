<?php
/**
 * The queue of attachments.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * The state of each attachment is in its post meta; the attachments with a due time are the queue. An error of the
 * service, the key or the account pauses the whole queue.
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

	/**
	 * Value of META_STATE while a waiting attachment is being sent. The array of state() still says waiting.
	 */
	const SENDING = 'sending';

	/**
	 * Option: reason, message, until and count of a pause.
	 */
	const PAUSE = 'imgproc_local_pause';

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
	 * Adds an attachment to the queue.
	 *
	 * @param int   $attachment_id Attachment.
	 * @param array $args          texts_only: ask for texts only; force: send even if it is done; preview: replace no alt text.
	 * @param int   $delay_s       Seconds until it may be sent; negative to put it ahead of others.
	 * @return true|WP_Error The error of Imgproc_Local_Source::check().
	 */
	public static function add( int $attachment_id, array $args = array(), int $delay_s = 0 ) {
		if ( Imgproc_Local_Worker::$working_on === $attachment_id ) {
			return true;
		}
		$check = Imgproc_Local_Source::check( $attachment_id );
		if ( is_wp_error( $check ) ) {
			if ( 'skipped' === $check->get_error_code() && ! metadata_exists( 'post', $attachment_id, self::META_STATE ) ) {
				self::finish( $attachment_id, array( 'error' => $check->get_error_message() ), 'skipped' );
			}
			return $check;
		}
		$state = self::state( $attachment_id );
		if ( 'sent' === $state['state'] ) {
			if ( ! metadata_exists( 'post', $attachment_id, self::META_DUE ) ) {
				self::save( $attachment_id, $state, time() );
				Imgproc_Local_Background::start();
			}
			return true;
		}
		if ( 'waiting' === $state['state'] && array() === $args && array() === $state['args'] && 0 === $state['attempts'] ) {
			update_post_meta( $attachment_id, self::META_DUE, time() + $delay_s ); // An upload is added again whenever its metadata are generated.
			Imgproc_Local_Background::start( $delay_s );
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
		Imgproc_Local_Background::start( $delay_s );
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
		$ids = self::due( 'waiting', PHP_INT_MAX, $limit );
		foreach ( $ids as $id ) {
			$taken = $wpdb->query( $wpdb->prepare( "DELETE FROM $wpdb->postmeta WHERE post_id = %d AND meta_key = %s AND meta_value = 'waiting'", $id, self::META_STATE ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
			if ( ! $taken ) {
				continue; // The worker has claimed it.
			}
			wp_cache_delete( $id, 'post_meta' );
			$state = self::state( $id );
			if ( ! empty( $state['done_at'] ) ) {
				self::finish( $id, $state, 'done' );
			} else {
				self::forget( $id );
			}
		}
	}

	/**
	 * Marks a waiting attachment as being sent, so that stop() does not delete its post meta meanwhile.
	 *
	 * @param int $id Attachment.
	 * @return bool False if stop() has removed it from the queue.
	 */
	public static function claim( $id ) {
		return self::change_state( $id, 'waiting', self::SENDING ) || self::SENDING === get_post_meta( $id, self::META_STATE, true );
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
	 * Counts of attachments by state, and why the queue is paused.
	 *
	 * @return array With waiting, running (at the service), done, failed, skipped, paused_reason, paused_message and paused_until.
	 */
	public static function status(): array {
		global $wpdb;
		$counts = $wpdb->get_results( $wpdb->prepare( "SELECT meta_value AS state, COUNT(*) AS number FROM $wpdb->postmeta WHERE meta_key = %s GROUP BY meta_value", self::META_STATE ), OBJECT_K ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- counts change all the time.
		$pause  = self::pause();
		$number = function ( $state ) use ( $counts ) {
			return isset( $counts[ $state ] ) ? (int) $counts[ $state ]->number : 0;
		};
		return array(
			'waiting'        => $number( 'waiting' ) + $number( self::SENDING ),
			'running'        => $number( 'sent' ),
			'done'           => $number( 'done' ),
			'failed'         => $number( 'failed' ),
			'skipped'        => $number( 'skipped' ),
			'paused_reason'  => $pause ? $pause['reason'] : null,
			'paused_message' => $pause ? $pause['message'] : null,
			'paused_until'   => $pause ? $pause['until'] : null,
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
				'state'       => '',
				'job_id'      => '',
				'image_id'    => '',
				'error'       => '',
				'attempts'    => 0,
				'args'        => array(),
				'texts'       => array(),
				'saved_bytes' => 0,
				'files'       => array(),
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
	 * Removes due times of attachments that are not queued: a request that was killed can leave them behind.
	 */
	public static function remove_orphaned_due() {
		global $wpdb;
		$wpdb->query( // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- one query for all of them.
			$wpdb->prepare(
				"DELETE due FROM $wpdb->postmeta AS due LEFT JOIN $wpdb->postmeta AS state ON state.post_id = due.post_id AND state.meta_key = %s AND state.meta_value IN ('waiting', %s, 'sent')
				WHERE due.meta_key = %s AND state.meta_id IS NULL",
				array( self::META_STATE, self::SENDING, self::META_DUE )
			)
		);
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
	 * @return array|null With reason, message and until.
	 */
	public static function pause() {
		$pause = get_option( self::PAUSE );
		return is_array( $pause ) && $pause['until'] > time() ? $pause : null;
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
		global $wpdb;
		$due = $wpdb->get_var( $wpdb->prepare( "SELECT MIN(CAST(meta_value AS UNSIGNED)) FROM $wpdb->postmeta WHERE meta_key = %s", self::META_DUE ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- past the cache.
		if ( null === $due ) {
			return null;
		}
		$pause = self::pause();
		if ( ! $pause ) {
			return (int) $due;
		}
		$after_pause = max( (int) $due, $pause['until'] );
		$sent        = self::is_sending_paused() ? self::due( 'sent', PHP_INT_MAX, 1 ) : array();
		return $sent ? min( $after_pause, (int) get_post_meta( $sent[0], self::META_DUE, true ) ) : $after_pause;
	}

	/**
	 * Whether a pause of sending is in force, in which jobs may still be polled.
	 *
	 * @return bool
	 */
	public static function is_sending_paused() {
		$pause = self::pause();
		return $pause && in_array( $pause['reason'], self::SENDING_PAUSES, true );
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
	 * Removes everything that is stored about an attachment.
	 *
	 * @param int $id Attachment.
	 */
	public static function forget( $id ) {
		foreach ( array( self::META, self::META_STATE, self::META_DUE, self::META_NEEDS_TEXT, self::META_SAVED ) as $key ) {
			delete_post_meta( $id, $key );
		}
	}

	/**
	 * Attachments in the queue, the one that has been due longest first.
	 *
	 * @param string $state  waiting (which includes SENDING) or sent.
	 * @param int    $before Latest due time.
	 * @param int    $limit  Largest number of attachments.
	 * @return int[]
	 */
	public static function due( $state, $before, $limit ) {
		global $wpdb;
		$ids = $wpdb->get_col( // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- past the cache; WP_Query would load whole posts.
			$wpdb->prepare(
				"SELECT due.post_id FROM $wpdb->postmeta AS due JOIN $wpdb->postmeta AS state ON state.post_id = due.post_id AND state.meta_key = %s
				WHERE due.meta_key = %s AND state.meta_value IN (%s, %s) AND CAST(due.meta_value AS UNSIGNED) <= %d
				ORDER BY CAST(due.meta_value AS UNSIGNED), due.post_id LIMIT %d",
				self::META_STATE,
				self::META_DUE,
				$state,
				'waiting' === $state ? self::SENDING : $state,
				$before,
				$limit
			)
		);
		return array_map( 'intval', $ids );
	}
}
