<?php
/**
 * The commands `wp imgproc` of WP-CLI.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Writes alt texts and makes images smaller with an imgproc-local service.
 */
final class Imgproc_Local_CLI {

	/**
	 * Images that are added to the queue at a time.
	 */
	const PAGE_SIZE = 200;

	/**
	 * The longest sleep in seconds between two looks at the queue.
	 */
	const POLL_S = 2;

	/**
	 * The largest number of failed images that `process` lists.
	 */
	const MAX_FAILURES = 100;

	/**
	 * The longest pause in seconds that `process` waits for: longer than a minute, because the rate limit is per minute.
	 */
	const MAX_PAUSE_S = 90;

	/**
	 * Registers the commands where WP-CLI runs.
	 */
	public static function init(): void {
		if ( defined( 'WP_CLI' ) && WP_CLI ) {
			WP_CLI::add_command( 'imgproc', __CLASS__ );
		}
	}

	/**
	 * Processes images and waits until all are finished.
	 *
	 * An interrupted run is continued by the next one; nothing is sent twice.
	 *
	 * ## OPTIONS
	 *
	 * [<id>...]
	 * : Attachments to process. Without ids, those of --which.
	 *
	 * [--which=<which>]
	 * : The images to process.
	 * ---
	 * default: new
	 * options:
	 *   - new
	 *   - no_alt
	 *   - failed
	 *   - all
	 * ---
	 *
	 * [--force]
	 * : Send images again although nothing changed since they were processed. This takes credits again.
	 *
	 * [--resume]
	 * : Add no images; finish those that wait.
	 *
	 * [--dry-run]
	 * : Say how many images would be processed, and change nothing.
	 *
	 * ## EXAMPLES
	 *
	 *     wp imgproc process --dry-run
	 *     wp imgproc process --which=no_alt
	 *     wp imgproc process 12 15
	 *
	 * @param string[] $ids     Attachment ids.
	 * @param array    $options Options of the command.
	 */
	public function process( $ids, $options ) {
		$which = $options['which'] ?? 'new';
		$ids   = $this->images( $ids );
		if ( ! empty( $options['dry-run'] ) ) {
			$this->print_dry_run( $ids, $which, ! empty( $options['resume'] ) );
			return;
		}
		if ( empty( $options['resume'] ) ) {
			$args  = empty( $options['force'] ) ? array() : array( 'force' => true );
			$added = $ids ? Imgproc_Local_Queue::add_many( $ids, $args ) : $this->add_all( $which, $args );
			/* translators: %d: Number of images. */
			WP_CLI::log( sprintf( _n( '%d image was added to the queue.', '%d images were added to the queue.', $added, 'imgproc-local' ), $added ) );
		}
		$this->work();
	}

	/**
	 * Shows the state of the queue.
	 *
	 * ## OPTIONS
	 *
	 * [--format=<format>]
	 * : How to print it.
	 * ---
	 * default: table
	 * options:
	 *   - table
	 *   - csv
	 *   - json
	 *   - yaml
	 * ---
	 *
	 * @param string[] $arguments None.
	 * @param array    $options   Options of the command.
	 */
	public function status( $arguments, $options ) {
		$status = Imgproc_Local_Queue::status();
		$row    = array(
			'waiting'    => $status['waiting'],
			'running'    => $status['running'],
			'done'       => $status['done'],
			'failed'     => $status['failed'],
			'needs_text' => Imgproc_Local_Images::count( 'needs_text' ),
			'paused'     => Imgproc_Local_Notices::pause_message( $status ),
		);
		WP_CLI\Utils\format_items( $options['format'] ?? 'table', array( $row ), array_keys( $row ) );
	}

	/**
	 * Removes the images that wait from the queue. Those that the service has already are finished.
	 */
	public function stop() {
		Imgproc_Local_Queue::stop();
		WP_CLI::success( __( 'The queue was stopped.', 'imgproc-local' ) );
	}

	/**
	 * Tests the address and the key of the settings.
	 */
	public function test() {
		$result = Imgproc_Local_Settings::test();
		if ( is_wp_error( $result ) ) {
			WP_CLI::error( $result->get_error_message() );
		}
		/* translators: %s: number of credits. */
		WP_CLI::success( sprintf( __( 'The service answers and accepts the key. Credits: %s.', 'imgproc-local' ), number_format_i18n( $result['balance'] ) ) );
	}

	/**
	 * Returns the given ids as numbers. Ends the command if one is not an image.
	 *
	 * @param string[] $ids Attachment ids.
	 * @return int[]
	 */
	private function images( array $ids ): array {
		foreach ( $ids as $id ) {
			if ( ! wp_attachment_is_image( (int) $id ) ) {
				/* translators: %s: An attachment id. */
				WP_CLI::error( sprintf( __( '%s is not the id of an image.', 'imgproc-local' ), $id ) );
			}
		}
		return array_map( 'intval', $ids );
	}

	/**
	 * Prints what process() would do.
	 *
	 * @param int[]  $ids    Attachment ids.
	 * @param string $which  The filter that is used without ids.
	 * @param bool   $resume Whether no images are added.
	 */
	private function print_dry_run( array $ids, string $which, bool $resume ): void {
		$added   = $ids ? count( $ids ) : Imgproc_Local_Images::count( $which );
		$added   = $resume ? 0 : $added;
		$waiting = Imgproc_Local_Images::count( 'waiting' );
		/* translators: %d: Number of images. */
		WP_CLI::log( sprintf( _n( '%d image would be added to the queue.', '%d images would be added to the queue.', $added, 'imgproc-local' ), $added ) );
		/* translators: %d: Number of images. */
		WP_CLI::log( sprintf( _n( '%d image waits already.', '%d images wait already.', $waiting, 'imgproc-local' ), $waiting ) );
	}

	/**
	 * Adds all images that a filter lists to the queue.
	 *
	 * @param string $which A filter of Imgproc_Local_Images.
	 * @param array  $args  Arguments of Imgproc_Local_Queue::add().
	 * @return int The number of images added.
	 */
	private function add_all( string $which, array $args ): int {
		$added = 0;
		$after = 0;
		do {
			$ids    = Imgproc_Local_Images::ids( $which, $after, self::PAGE_SIZE );
			$added += Imgproc_Local_Queue::add_many( $ids, $args );
			$after  = end( $ids );
			$number = count( $ids );
		} while ( self::PAGE_SIZE === $number );
		return $added;
	}

	/**
	 * Works through the queue with a progress bar, and reports the result.
	 */
	private function work(): void {
		$start  = Imgproc_Local_Queue::status();
		$total  = $start['waiting'] + $start['running'];
		$bar    = WP_CLI\Utils\make_progress_bar( __( 'Images', 'imgproc-local' ), $total );
		$shown  = 0;
		$status = $start;
		while ( $status['waiting'] + $status['running'] > 0 ) {
			$this->wait_or_end( $status );
			$is_ours = Imgproc_Local_Worker::run();
			WP_CLI\Utils\wp_clear_object_cache(); // Memory does not grow with the number of images.
			$this->sleep_until_due( $is_ours );
			$status = Imgproc_Local_Queue::status();
			for ( $finished = $total - $status['waiting'] - $status['running']; $shown < $finished; $shown++ ) {
				$bar->tick();
			}
		}
		$bar->finish();
		$this->report( $start, $status );
	}

	/**
	 * Sleeps until the next image is due, at most for POLL_S; for POLL_S if a background request works on the queue.
	 *
	 * @param bool $is_ours Whether this process worked on the queue, and not a background request.
	 */
	private function sleep_until_due( bool $is_ours ): void {
		$due     = Imgproc_Local_Queue::next_due();
		$seconds = null === $due ? 0 : $due - time();
		sleep( $is_ours ? max( 0, min( self::POLL_S, $seconds ) ) : self::POLL_S );
	}

	/**
	 * Waits until a pause of the queue is over. Ends the command if that would take longer than MAX_PAUSE_S.
	 *
	 * @param array $status As returned by Imgproc_Local_Queue::status().
	 */
	private function wait_or_end( array $status ): void {
		if ( empty( $status['paused_reason'] ) ) {
			return;
		}
		$seconds = (int) $status['paused_until'] - time();
		$message = Imgproc_Local_Notices::pause_message( $status );
		if ( $seconds > self::MAX_PAUSE_S ) {
			WP_CLI::error( $message . ' ' . __( 'Continue with “wp imgproc process --resume”.', 'imgproc-local' ) );
		}
		if ( $seconds > 0 ) {
			WP_CLI::log( $message );
			sleep( $seconds );
		}
	}

	/**
	 * Reports how many images were finished. If one failed, lists the failed images of the site, those of earlier runs too,
	 * and ends the command with status 1.
	 *
	 * @param array $start  The state of the queue before.
	 * @param array $status The state of the queue now.
	 */
	private function report( array $start, array $status ): void {
		$failed = $status['failed'] - $start['failed'];
		$done   = $status['done'] - $start['done'];
		/* translators: %d: Number of images. */
		$message = sprintf( _n( '%d image was finished.', '%d images were finished.', $done, 'imgproc-local' ), $done );
		if ( $failed <= 0 ) {
			WP_CLI::success( $message );
			return;
		}
		WP_CLI::log( $message );
		foreach ( Imgproc_Local_Images::ids( 'failed', 0, self::MAX_FAILURES ) as $id ) {
			WP_CLI::warning( sprintf( '%d %s: %s', $id, wp_basename( (string) get_attached_file( $id ) ), Imgproc_Local_Queue::state( $id )['error'] ) );
		}
		/* translators: %d: Number of images. */
		WP_CLI::error( sprintf( _n( '%d image failed.', '%d images failed.', $failed, 'imgproc-local' ), $failed ) );
	}
}
