<?php
// Runs PHP code inside the site of this folder: reads {"code", "args"} as JSON from the standard input, and prints what
// the code returns as JSON after a NUL byte. With the argument "install" it installs the site instead; with
// "without_plugins", no plugin is loaded.
$_SERVER += array(
	'REQUEST_METHOD'  => 'GET',
	'SERVER_PROTOCOL' => 'HTTP/1.1',
	'REQUEST_URI'     => '/wp-admin/',
	'REMOTE_ADDR'     => '127.0.0.1',
);

$input = json_decode( stream_get_contents( STDIN ), true );
$args  = $input['args'];

$_SERVER['HTTP_HOST'] = $input['host'];
if ( ! empty( $args['install'] ) ) {
	define( 'WP_INSTALLING', true );
}
if ( ! empty( $args['without_plugins'] ) ) {
	// a filter that is in place before WordPress is loaded, see WP_Hook::build_preinitialized_hooks()
	$none      = array(
		'function'      => static fn() => array(),
		'accepted_args' => 1,
	);
	$wp_filter = array( 'pre_option_active_plugins' => array( 10 => array( $none ) ) );
}
define( 'WP_ADMIN', true );
require __DIR__ . '/wordpress/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/admin.php';

if ( ! empty( $args['install'] ) ) {
	require_once ABSPATH . 'wp-admin/includes/upgrade.php';
	wp_install( 'A test site', $args['user'], 'admin@example.org', true, '', $args['password'] );
	update_option( 'permalink_structure', '/%postname%/' );
	update_option( 'show_avatars', 0 ); // they are pictures of another site
	update_option( 'uploads_use_yearmonth_folders', 0 );
	flush_rewrite_rules();
	// the welcome of the editor would cover it
	update_user_meta( 1, 'wp_persisted_preferences', array( 'core/edit-post' => array( 'welcomeGuide' => false ) ) );
	echo "\0null";
	exit;
}

wp_set_current_user( 1 );
$result = eval( $input['code'] );
if ( is_wp_error( $result ) ) {
	fwrite( STDERR, $result->get_error_message() );
	exit( 1 );
}
echo "\0" . wp_json_encode( $result );
