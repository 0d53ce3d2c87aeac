<?php
// A stand-in for WP-CLI with the calls that the plugin makes. It prints each call as a line, and its error() throws.
namespace WP_CLI\Utils {
	function make_progress_bar( $message, $count ) {
		echo "bar $count\n";
		return new class() {
			public function tick() {
				echo "tick\n";
			}
			public function finish() {}
		};
	}

	function wp_clear_object_cache() {
		wp_cache_flush();
	}
}

namespace {
	class WP_CLI {
		public static function log( $message ) {
			echo "$message\n";
		}

		public static function warning( $message ) {
			echo "Warning: $message\n";
		}

		public static function success( $message ) {
			echo "Success: $message\n";
		}

		public static function error( $message ) {
			throw new RuntimeException( $message );
		}
	}
}
