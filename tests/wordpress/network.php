<?php
// The router of PHP's web server for a network whose second site is /second/: WordPress' own files lie in the first.
$path = preg_replace( '#^/second(?=/wp-)#', '', $_SERVER['SCRIPT_NAME'] );
$file = $_SERVER['DOCUMENT_ROOT'] . $path;
if ( is_dir( $file ) ) {
	$file .= '/index.php';
}
if ( $path === $_SERVER['SCRIPT_NAME'] || ! is_file( $file ) ) {
	return false;
}
if ( ! str_ends_with( $file, '.php' ) ) {
	header( 'Content-Type: ' . mime_content_type( $file ) );
	readfile( $file );
	return;
}
$_SERVER['SCRIPT_FILENAME'] = $file;
chdir( dirname( $file ) );
require $file;
