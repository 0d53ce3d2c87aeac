<?php
/**
 * The lock that lets only one process at a time work on the queue.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * The lock is a row of the options table, read and written past the object cache, because other requests have to see it
 * at once. It expires, so that a killed request blocks the queue only for a while. If it expires during a long step,
 * another request repeats the step when it is due again, with the same Idempotency-Key.
 */
final class Imgproc_Local_Lock {

	const OPTION = 'imgproc_local_lock';

	/**
	 * Seconds after which another request may take the lock. It is renewed before every request to the service, which has
	 * a time-out of at most 60 seconds, and before every file that PHP encodes.
	 */
	const EXPIRES_S = 80;

	/**
	 * The lock that this request took last, even if it has lost or released it since.
	 *
	 * @var self|null
	 */
	private static $held = null;

	/**
	 * Value of the row while this request holds the lock; empty otherwise.
	 *
	 * @var string
	 */
	private $value = '';

	/**
	 * Takes the lock if it is free or expired.
	 *
	 * @return bool
	 */
	public function acquire() {
		global $wpdb;
		$value = self::new_value();
		$found = $wpdb->get_var( $wpdb->prepare( "SELECT option_value FROM $wpdb->options WHERE option_name = %s", self::OPTION ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- past the cache.
		if ( null === $found ) {
			$taken = $wpdb->query( $wpdb->prepare( "INSERT IGNORE INTO $wpdb->options (option_name, option_value, autoload) VALUES (%s, %s, 'no')", self::OPTION, $value ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
		} else {
			$taken = (int) $found < time() && $this->swap( $found, $value );
		}
		$this->value = $taken ? $value : '';
		if ( $taken ) {
			self::$held = $this;
		}
		return (bool) $taken;
	}

	/**
	 * Extends the lock.
	 *
	 * @return bool False if it was removed by a deactivation, or taken by another request after this machine was asleep.
	 */
	public function renew() {
		$value = self::new_value();
		if ( '' === $this->value || ! $this->swap( $this->value, $value ) ) {
			$this->value = '';
			return false;
		}
		$this->value = $value;
		return true;
	}

	/**
	 * Extends the lock of this request, if it holds one. Call it before and after each long step.
	 *
	 * @return bool False if the lock was just found to be gone and nobody holds it, as after a deactivation: this
	 *              request has to end. True if another request has taken it.
	 */
	public static function renew_held() {
		return ! self::$held || '' === self::$held->value || self::$held->renew() || self::is_held();
	}

	/**
	 * Releases the lock, if this request still holds it.
	 */
	public function release() {
		global $wpdb;
		if ( '' !== $this->value ) {
			$wpdb->query( $wpdb->prepare( "DELETE FROM $wpdb->options WHERE option_name = %s AND option_value = %s", self::OPTION, $this->value ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
			$this->value = '';
		}
	}

	/**
	 * Whether some request holds the lock.
	 *
	 * @return bool
	 */
	public static function is_held() {
		global $wpdb;
		$found = $wpdb->get_var( $wpdb->prepare( "SELECT option_value FROM $wpdb->options WHERE option_name = %s", self::OPTION ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- past the cache.
		return null !== $found && (int) $found >= time();
	}

	/**
	 * Replaces the row’s value if no other request has changed it.
	 *
	 * @param string $old Value that is expected.
	 * @param string $new New value.
	 * @return bool
	 */
	private function swap( $old, $new ) {
		global $wpdb;
		return 1 === $wpdb->query( $wpdb->prepare( "UPDATE $wpdb->options SET option_value = %s WHERE option_name = %s AND option_value = %s", $new, self::OPTION, $old ) ); // phpcs:ignore WordPress.DB.DirectDatabaseQuery -- atomic.
	}

	/**
	 * Time of expiry, and random characters that identify the holder.
	 *
	 * @return string
	 */
	private static function new_value() {
		return ( time() + self::EXPIRES_S ) . ' ' . wp_generate_password( 20, false );
	}
}
