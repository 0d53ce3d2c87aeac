<?php
// A must-use plugin of the test site. It refuses requests to other machines, of which it records the plugin's, and ends
// PHP before the state of a picture becomes "done" if the picture's path contains the text in the file "die-on" of the
// test folder.
defined( 'ABSPATH' ) || exit;

add_filter( 'block_local_requests', '__return_false' );

add_filter(
	'pre_http_request',
	static function ( $answer, $options, $url ) {
		if ( '127.0.0.1' === wp_parse_url( $url, PHP_URL_HOST ) ) {
			return $answer;
		}
		$files = array_column( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS ), 'file' );
		if ( preg_grep( '#/plugins/imgproc-local/#', $files ) ) {
			file_put_contents( IMGPROC_TEST_FOLDER . '/refused.txt', "$url\n", FILE_APPEND | LOCK_EX );
		}
		return new WP_Error( 'outside', 'The test site sends nothing to other machines.' );
	},
	10,
	3
);

add_filter(
	'update_post_metadata',
	static function ( $check, $id, $key, $value ) {
		$file = IMGPROC_TEST_FOLDER . '/die-on';
		if ( '_imgproc_local_state' === $key && 'done' === $value && is_file( $file )
			&& false !== strpos( (string) get_attached_file( $id ), (string) file_get_contents( $file ) ) ) {
			exit( 'The test ends PHP before it has finished this picture.' );
		}
		return $check;
	},
	10,
	4
);
