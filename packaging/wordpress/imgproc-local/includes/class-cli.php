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
		$args   = empty( $options['force'] ) ? array() : array( 'force' => true );
		$dry    = ! empty( $options['dry-run'] );
		$number = 0;
		foreach ( $ids as $id ) {
			if ( ! wp_attachment_is_image( (int) $id ) ) {
				/* translators: %s: An attachment id. */
				WP_CLI::error( sprintf( __( '%s is not the id of an image.', 'imgproc-local' ), $id ) );
			}
		}
		foreach ( empty( $options['resume'] ) ? $this->pages( $ids, $options['which'] ?? 'new' ) : array() as $page ) {
			$number += $dry ? count( $page ) : Imgproc_Local_Queue::add_many( $page, $args );
		}
		if ( $dry ) {
			/* translators: %d: Number of images. */
			WP_CLI::log( sprintf( _n( '%d image would be added to the queue.', '%d images would be added to the queue.', $number, 'imgproc-local' ), $number ) );
			return;
		}
		/* translators: %d: Number of images. */
		WP_CLI::log( sprintf( _n( '%d image was added to the queue.', '%d images were added to the queue.', $number, 'imgproc-local' ), $number ) );
		$this->work();
	}

	/**
	 * The images to process, a page at a time.
	 *
	 * @param string[] $ids   Attachment ids; if there are none, all images that a filter lists.
	 * @param string   $which A filter of Imgproc_Local_Library.
	 * @return iterable<int[]>
	 */
	private function pages( array $ids, string $which ): iterable {
		$page = $ids ? array_map( 'intval', $ids ) : Imgproc_Local_Library::ids( $which, 0, Imgproc_Local_Library::PAGE_SIZE );
		while ( $page ) {
			yield $page;
			$page = $ids ? array() : Imgproc_Local_Library::ids( $which, end( $page ), Imgproc_Local_Library::PAGE_SIZE );
		}
	}

	/**
	 * Shows the state of the queue.
	 */
	public function status() {
		$status = Imgproc_Local_Queue::status();

		$status['needs_text'] = Imgproc_Local_Library::count( 'needs_text' );
		$status['pause']      = Imgproc_Local_Bulk::pause_message( $status );
		foreach ( $status as $name => $value ) {
			WP_CLI::log( "$name: $value" );
		}
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
		WP_CLI::success( $result );
	}

	/**
	 * Works through the queue with a progress bar, and reports the result. Waits for the end of a pause, or ends the command
	 * if that would take longer than MAX_PAUSE_S. While a background request works on the queue, sleeps for POLL_S.
	 */
	private function work(): void {
		$start  = Imgproc_Local_Queue::status();
		$total  = $start['waiting'] + $start['running'];
		$bar    = WP_CLI\Utils\make_progress_bar( __( 'Images', 'imgproc-local' ), $total );
		$shown  = 0;
		$status = $start;
		while ( $status['waiting'] + $status['running'] > 0 ) {
			$pause_s = $status['pause'] ? $status['pause']['until'] - time() : 0;
			$message = Imgproc_Local_Bulk::pause_message( $status );
			if ( $pause_s > self::MAX_PAUSE_S ) {
				WP_CLI::error( $message . ' ' . __( 'Continue with “wp imgproc process --resume”.', 'imgproc-local' ) );
			} elseif ( $pause_s > 0 ) {
				WP_CLI::log( $message );
				sleep( $pause_s );
			}
			$is_ours = Imgproc_Local_Worker::run();
			WP_CLI\Utils\wp_clear_object_cache(); // Memory does not grow with the number of images.
			$due = Imgproc_Local_Queue::next_due() ?? 0;
			sleep( $is_ours ? max( 0, min( self::POLL_S, $due - time() ) ) : self::POLL_S );
			$status = Imgproc_Local_Queue::status();
			for ( $finished = $total - $status['waiting'] - $status['running']; $shown < $finished; $shown++ ) {
				$bar->tick();
			}
		}
		$bar->finish();
		$this->report( $status['done'] - $start['done'], $status['failed'] - $start['failed'] );
	}

	/**
	 * Reports how many images were finished. If one failed, lists the failed images of the site, those of earlier runs too,
	 * and ends the command with status 1.
	 *
	 * @param int $done   Number of images that were finished.
	 * @param int $failed Number of images that failed.
	 */
	private function report( int $done, int $failed ): void {
		/* translators: %d: Number of images. */
		$message = sprintf( _n( '%d image was finished.', '%d images were finished.', $done, 'imgproc-local' ), $done );
		if ( $failed <= 0 ) {
			WP_CLI::success( $message );
			return;
		}
		WP_CLI::log( $message );
		foreach ( Imgproc_Local_Library::ids( 'failed', 0, self::MAX_FAILURES ) as $id ) {
			WP_CLI::warning( sprintf( '%d %s: %s', $id, wp_basename( (string) get_attached_file( $id ) ), Imgproc_Local_Queue::state( $id )['error'] ) );
		}
		/* translators: %d: Number of images. */
		WP_CLI::error( sprintf( _n( '%d image failed.', '%d images failed.', $failed, 'imgproc-local' ), $failed ) );
	}
}
