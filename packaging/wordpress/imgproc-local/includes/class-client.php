<?php
/**
 * HTTP client for the interface of imgproc-local, version 1.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Sends requests to one service with one key. Every request returns its result or a WP_Error with one of these codes:
 *
 * - service_down: no answer, an answer of another program, a redirect, or a 503 that is not about the queue; data can
 *   hold retry_after in seconds
 * - wrong_key: the key is missing, wrong or revoked
 * - no_credits: the account has too few credits
 * - rate_limited, queue_full: data holds retry_after in seconds
 * - refused: the file can't be read, or the service or a server before it refuses this request
 * - wrong_settings: the service refuses another field than the image, such as the languages or the format
 * - not_found: the job or the file is not there
 * - old_version: the service does not know this request
 * - server_error: the service failed with another status of 500 or above, or a file was not received completely
 * - time_out: the answer took too long
 */
final class Imgproc_Local_Client {

	/**
	 * Seconds until an answer must be complete: to most requests, and to those that upload or download a file.
	 */
	const TIMEOUT_S      = 10;
	const FILE_TIMEOUT_S = 60;

	/**
	 * Address of the service without a slash at its end.
	 *
	 * @var string
	 */
	private $address;

	/**
	 * API key.
	 *
	 * @var string
	 */
	private $key;

	/**
	 * Creates a client for the stored address and key, or for others that are to be tested.
	 *
	 * @param string|null $address Address of the service; null for the stored one.
	 * @param string|null $key     API key; null for the stored one.
	 */
	public function __construct( $address = null, $key = null ) {
		$this->address = untrailingslashit( null === $address ? Imgproc_Local_Settings::get( 'address' ) : $address );
		$this->key     = null === $key ? Imgproc_Local_Settings::key() : $key;
	}

	/**
	 * Identifies the service and the key, so that no other service is asked for its jobs.
	 *
	 * @return string
	 */
	public function fingerprint() {
		return substr( hash_hmac( 'sha256', $this->address . '|' . $this->key, wp_salt( 'nonce' ) ), 0, 16 );
	}

	/**
	 * Languages that the service can write; needs no key.
	 *
	 * @return array|WP_Error Code => name in the language itself.
	 */
	public function languages() {
		$data = $this->data( 'GET', '/languages' );
		return is_wp_error( $data ) ? $data : wp_list_pluck( $data, 'native_name', 'code' );
	}

	/**
	 * Credits that the account has.
	 *
	 * @return int|WP_Error
	 */
	public function balance() {
		$data = $this->data( 'GET', '/credits/balance' );
		return is_wp_error( $data ) ? $data : (int) $data['balance'];
	}

	/**
	 * Uploads an image. A repeated request with the same key and content gets the same job.
	 *
	 * @param string $path            File to upload.
	 * @param string $operation       One of analyze, optimize, convert and process.
	 * @param array  $fields          Other fields of the form: name => text.
	 * @param string $idempotency_key Idempotency-Key of the request.
	 * @return array|WP_Error With job_id and status.
	 */
	public function send( $path, $operation, array $fields, $idempotency_key ) {
		wp_raise_memory_limit( 'image' );
		$content = file_get_contents( $path ); // phpcs:ignore WordPress.WP.AlternativeFunctions.file_get_contents_file_get_contents -- a local file.
		if ( false === $content ) {
			/* translators: %s: file name. */
			return new WP_Error( 'refused', sprintf( __( 'The file %s can’t be read.', 'imgproc-local' ), wp_basename( $path ) ) );
		}
		$boundary = wp_generate_password( 32, false );
		$body     = '';
		foreach ( $fields as $name => $value ) {
			$body .= "--$boundary\r\nContent-Disposition: form-data; name=\"$name\"\r\n\r\n$value\r\n";
		}
		$name  = str_replace( array( '"', "\r", "\n" ), '_', wp_basename( $path ) );
		$body .= "--$boundary\r\nContent-Disposition: form-data; name=\"image\"; filename=\"$name\"\r\n"
			. "Content-Type: application/octet-stream\r\n\r\n$content\r\n--$boundary--\r\n";
		unset( $content );
		$args = array(
			'timeout' => self::FILE_TIMEOUT_S,
			'headers' => array(
				'Content-Type'    => 'multipart/form-data; boundary=' . $boundary,
				'Idempotency-Key' => $idempotency_key,
			),
			'body'    => $body,
		);
		return $this->data( 'POST', '/images/' . $operation, $args );
	}

	/**
	 * A job and its results so far.
	 *
	 * @param string $job_id Identifier of the job.
	 * @param int    $wait_s Seconds that the service may wait until the job is final.
	 * @return array|WP_Error As the service sends it: status, image, errors.
	 */
	public function job( $job_id, $wait_s = 0 ) {
		$args = array(
			'timeout' => $wait_s + self::TIMEOUT_S,
			'headers' => $wait_s > 0 ? array( 'Prefer' => 'wait=' . (int) $wait_s ) : array(),
		);
		return $this->data( 'GET', '/jobs/' . rawurlencode( $job_id ) . '?include=details', $args );
	}

	/**
	 * Downloads a file to a path and verifies it by its SHA-256, which the service sends as the ETag.
	 *
	 * @param string $image_id Identifier of the image.
	 * @param string $variant  optimized or converted.
	 * @param string $to       Path of the new file; it is removed again if the download fails.
	 * @return true|WP_Error
	 */
	public function download( $image_id, $variant, $to ) {
		$args   = array(
			'timeout'  => self::FILE_TIMEOUT_S,
			'stream'   => true,
			'filename' => $to,
		);
		$answer = $this->request( 'GET', '/images/' . rawurlencode( $image_id ) . '/' . $variant, $args );
		if ( ! is_wp_error( $answer ) ) {
			$hash = trim( (string) wp_remote_retrieve_header( $answer, 'etag' ), 'W/"' );
			if ( is_readable( $to ) && '' !== $hash && hash_file( 'sha256', $to ) === $hash ) {
				return true;
			}
			$answer = new WP_Error( 'server_error', __( 'The file was not received completely.', 'imgproc-local' ) );
		}
		wp_delete_file( $to );
		return $answer;
	}

	/**
	 * The field `data` of an answer.
	 *
	 * @param string $method GET or POST.
	 * @param string $path   Path below /api/v1.
	 * @param array  $args   Arguments of wp_remote_request().
	 * @return array|WP_Error
	 */
	private function data( $method, $path, array $args = array() ) {
		$answer = $this->request( $method, $path, $args );
		if ( is_wp_error( $answer ) ) {
			return $answer;
		}
		$body = json_decode( wp_remote_retrieve_body( $answer ), true );
		return isset( $body['data'] ) && is_array( $body['data'] ) ? $body['data'] : $this->other_program();
	}

	/**
	 * Sends one request. Redirects are not followed, because they would carry the key to another server. The lock of the
	 * queue is renewed before and after it.
	 *
	 * @param string $method GET or POST.
	 * @param string $path   Path below /api/v1.
	 * @param array  $args   Arguments of wp_remote_request().
	 * @return array|WP_Error The answer of wp_remote_request() if its status is 2xx.
	 */
	private function request( $method, $path, array $args ) {
		$args['headers'] = array_filter( array( 'X-API-Key' => $this->key ) ) + ( $args['headers'] ?? array() ) + array( 'Accept' => '*/*' );

		$args += array(
			'method'      => $method,
			'timeout'     => self::TIMEOUT_S,
			'redirection' => 0,
			'user-agent'  => 'imgproc-local-wordpress/' . IMGPROC_LOCAL_VERSION,
		);
		Imgproc_Local_Queue::renew_lock();
		add_filter( 'pre_http_send_through_proxy', array( $this, 'bypass_proxy' ), 10, 2 );
		$answer = wp_remote_request( $this->address . '/api/v1' . $path, $args );
		remove_filter( 'pre_http_send_through_proxy', array( $this, 'bypass_proxy' ), 10 );
		Imgproc_Local_Queue::renew_lock( $args['filename'] ?? '' );
		if ( is_wp_error( $answer ) ) {
			return $this->no_answer( $answer->get_error_message() );
		}
		$status = (int) wp_remote_retrieve_response_code( $answer );
		return $status >= 200 && $status < 300 ? $answer : $this->error_of( $status, $answer );
	}

	/**
	 * Keeps requests to this machine away from an HTTP proxy, which can’t reach it.
	 *
	 * @param bool|null $override Decision of other filters.
	 * @param string    $uri      Address of the request.
	 * @return bool|null
	 */
	public function bypass_proxy( $override, $uri ) {
		$host = (string) wp_parse_url( $uri, PHP_URL_HOST );
		return preg_match( '/^(127\.[0-9.]+|\[::1\]|localhost|host\.docker\.internal)$/', $host ) ? false : $override;
	}

	/**
	 * The error for a request without an answer.
	 *
	 * @param string $message Message of wp_remote_request().
	 * @return WP_Error
	 */
	private function no_answer( $message ) {
		if ( preg_match( '/timed? ?out/i', $message ) ) {
			/* translators: %s: address of the service. */
			return new WP_Error( 'time_out', sprintf( __( 'The service at %s did not answer in time.', 'imgproc-local' ), $this->address ) );
		}
		$hint = __( 'Start it, or correct the address.', 'imgproc-local' );
		if ( defined( 'WP_HTTP_BLOCK_EXTERNAL' ) && WP_HTTP_BLOCK_EXTERNAL ) {
			$hint .= ' ' . __( 'WP_HTTP_BLOCK_EXTERNAL is set in wp-config.php: its host must be in WP_ACCESSIBLE_HOSTS.', 'imgproc-local' );
		}
		/* translators: 1: address of the service, 2: technical message. */
		return new WP_Error( 'service_down', sprintf( __( 'The service at %1$s can’t be reached (%2$s).', 'imgproc-local' ), $this->address, $message ) . ' ' . $hint );
	}

	/**
	 * The error for an answer whose status is not 2xx.
	 *
	 * @param int   $status HTTP status.
	 * @param array $answer Answer of wp_remote_request().
	 * @return WP_Error
	 */
	private function error_of( $status, array $answer ) {
		$body = isset( $answer['filename'] ) && is_readable( $answer['filename'] )
			? file_get_contents( $answer['filename'], false, null, 0, 10000 ) // phpcs:ignore WordPress.WP.AlternativeFunctions.file_get_contents_file_get_contents -- a local file.
			: wp_remote_retrieve_body( $answer );
		$body = (array) json_decode( (string) $body, true );
		$said = (string) ( $body['message'] ?? $body['error'] ?? '' );
		if ( 413 === $status ) {
			return new WP_Error( 'refused', '' === $said ? __( 'The file is too large for a server between this site and the service (413).', 'imgproc-local' ) : $said );
		}
		if ( '' === $said ) {
			return $this->other_program( $status );
		}
		$data = array( 'retry_after' => (int) wp_remote_retrieve_header( $answer, 'retry-after' ) );
		switch ( $status ) {
			case 401:
				return new WP_Error( 'wrong_key', __( 'The service does not accept the key. Create one with “imgproc-local keys create” and store it in the settings.', 'imgproc-local' ) );
			case 402:
				/* translators: 1: credits needed, 2: credits left. */
				return new WP_Error( 'no_credits', sprintf( __( 'The account has too few credits: %1$d are needed, %2$d are left. Add some with “imgproc-local credits grant”.', 'imgproc-local' ), $body['required'] ?? 0, $body['balance'] ?? 0 ) );
			case 404:
			case 405:
				return 'Not Found' === $said || 405 === $status
					? new WP_Error( 'old_version', __( 'This version of imgproc-local is too old for the plugin. Install the current version.', 'imgproc-local' ) )
					: new WP_Error( 'not_found', $said );
			case 408:
				return new WP_Error( 'time_out', $said );
			case 422:
				return new WP_Error( empty( $body['errors'] ) || isset( $body['errors']['image'] ) ? 'refused' : 'wrong_settings', $said );
			case 429:
				return new WP_Error( 'rate_limited', __( 'The key has made as many requests as it may in a minute.', 'imgproc-local' ), $data );
			case 503:
				return 'queue_full' === wp_remote_retrieve_header( $answer, 'x-error-code' )
					? new WP_Error( 'queue_full', __( 'The queue of the service is full.', 'imgproc-local' ), $data )
					: new WP_Error( 'service_down', $said, $data );
		}
		return new WP_Error( $status < 500 ? 'refused' : 'server_error', $said );
	}

	/**
	 * The error for an answer that can’t be from imgproc-local.
	 *
	 * @param int $status HTTP status.
	 * @return WP_Error
	 */
	private function other_program( $status = 200 ) {
		/* translators: 1: address of the service, 2: HTTP status. */
		return new WP_Error( 'service_down', sprintf( __( 'Another program than imgproc-local answers at %1$s (status %2$d). Correct the address.', 'imgproc-local' ), $this->address, $status ) );
	}
}
