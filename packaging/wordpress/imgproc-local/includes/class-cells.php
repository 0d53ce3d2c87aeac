<?php
/**
 * What the media library says about an image: the cells of the columns, and the remark that the grid and the panel show.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Prints the cells, and answers with fresh ones while images wait.
 */
final class Imgproc_Local_Cells {

	/**
	 * Registers the hooks.
	 */
	public static function init(): void {
		add_action( 'manage_media_custom_column', array( __CLASS__, 'print_column' ), 10, 2 );
		add_action( 'rest_api_init', array( __CLASS__, 'register_routes' ) );
	}

	/**
	 * Prints the plugin's cells of a row.
	 *
	 * @param string $column The name of the column.
	 * @param int    $id     The attachment.
	 */
	public static function print_column( string $column, int $id ): void {
		if ( 'imgproc_local_alt' === $column ) {
			$pending = self::is_pending( $id ) ? ' data-pending' : '';
			printf( '<div class="imgproc-local-cell" data-id="%d"%s>%s</div>', (int) $id, $pending, self::alt_cell( $id ) ); // phpcs:ignore WordPress.Security.EscapeOutput.OutputNotEscaped -- alt_cell() escapes.
		} elseif ( 'imgproc_local_saved' === $column ) {
			printf( '<span class="imgproc-local-saved" data-id="%d">%s</span>', (int) $id, self::saved_cell( $id ) ); // phpcs:ignore WordPress.Security.EscapeOutput.OutputNotEscaped -- saved_cell() escapes.
		}
	}

	/**
	 * Returns whether an image waits for the service or is being processed.
	 *
	 * @param int $id The attachment.
	 * @return bool
	 */
	public static function is_pending( int $id ): bool {
		return in_array( Imgproc_Local_Queue::state( $id )['state'], array( 'waiting', 'sent' ), true );
	}

	/**
	 * Returns the alt text of an attachment, or an empty string.
	 *
	 * @param int $id The attachment.
	 * @return string
	 */
	public static function alt( int $id ): string {
		return (string) get_post_meta( $id, '_wp_attachment_image_alt', true );
	}

	/**
	 * Returns what is to be said about an image: its state in the queue, or that it has no alt text. All fields are empty if
	 * there is nothing to say.
	 *
	 * @param int $id The attachment.
	 * @return array{kind: string, label: string, reason: string}
	 */
	public static function remark( int $id ): array {
		$state = Imgproc_Local_Queue::state( $id );
		switch ( $state['state'] ) {
			case 'waiting':
				return self::make_remark( 'waiting', __( 'Waiting', 'imgproc-local' ) );
			case 'sent':
				return self::make_remark( 'waiting', __( 'In progress', 'imgproc-local' ) );
			case 'failed':
				return self::make_remark( 'failed', __( 'Failed', 'imgproc-local' ), $state['error'] );
			case 'skipped':
				return self::make_remark( 'skipped', __( 'Skipped', 'imgproc-local' ), $state['error'] );
		}
		if ( '' !== self::alt( $id ) ) {
			return self::make_remark( '', '' );
		}
		if ( '1' === (string) get_post_meta( $id, Imgproc_Local_Queue::META_NEEDS_TEXT, true ) ) {
			return self::make_remark( 'needs-text', __( 'Needs a text', 'imgproc-local' ) );
		}
		return self::make_remark( 'no-alt', __( 'No alt text', 'imgproc-local' ) );
	}

	/**
	 * Returns a remark.
	 *
	 * @param string $kind   The end of the CSS class.
	 * @param string $label  The text for people.
	 * @param string $reason Why an image failed or was skipped.
	 * @return array{kind: string, label: string, reason: string}
	 */
	private static function make_remark( string $kind, string $label, string $reason = '' ): array {
		return array(
			'kind'   => $kind,
			'label'  => $label,
			'reason' => $reason,
		);
	}

	/**
	 * Returns the remark of an image as HTML, or an empty string.
	 *
	 * @param int $id The attachment.
	 * @return string Escaped HTML.
	 */
	public static function badge( int $id ): string {
		$remark = self::remark( $id );
		if ( '' === $remark['kind'] ) {
			return '';
		}
		$reason = '' === $remark['reason'] ? '' : ' <span class="imgproc-local-reason">' . esc_html( $remark['reason'] ) . '</span>';
		return sprintf( '<span class="imgproc-local-badge imgproc-local-%s">%s</span>%s', esc_attr( $remark['kind'] ), esc_html( $remark['label'] ), $reason );
	}

	/**
	 * Returns the content of the column “Alt text”.
	 *
	 * @param int $id The attachment.
	 * @return string Escaped HTML.
	 */
	private static function alt_cell( int $id ): string {
		if ( ! wp_attachment_is_image( $id ) ) {
			return self::empty_cell( __( 'Not an image', 'imgproc-local' ) );
		}
		$alt  = self::alt( $id );
		$text = '' === $alt ? '' : sprintf( '<span class="imgproc-local-alt">%s</span>', esc_html( $alt ) );
		return $text . self::badge( $id );
	}

	/**
	 * Returns the content of the column “Saved”.
	 *
	 * @param int $id The attachment.
	 * @return string Escaped HTML.
	 */
	private static function saved_cell( int $id ): string {
		$saved = (int) get_post_meta( $id, Imgproc_Local_Queue::META_SAVED, true );
		return $saved > 0 ? esc_html( self::size( $saved ) ) : self::empty_cell( __( 'Nothing saved', 'imgproc-local' ) );
	}

	/**
	 * Returns a size with its unit: bytes as a whole number, larger units with one decimal.
	 *
	 * @param int $bytes Number of bytes.
	 * @return string
	 */
	public static function size( int $bytes ): string {
		return (string) size_format( $bytes, $bytes < KB_IN_BYTES ? 0 : 1 );
	}

	/**
	 * Returns a dash, and for screen readers a text in its place.
	 *
	 * @param string $meaning What the dash stands for.
	 * @return string Escaped HTML.
	 */
	private static function empty_cell( string $meaning ): string {
		return '<span aria-hidden="true">&#8212;</span><span class="screen-reader-text">' . esc_html( $meaning ) . '</span>';
	}

	/**
	 * Registers the route that refreshes the cells of waiting images.
	 */
	public static function register_routes(): void {
		register_rest_route(
			'imgproc-local/v1',
			'/cells',
			array(
				'methods'             => WP_REST_Server::READABLE,
				'callback'            => array( __CLASS__, 'rest_cells' ),
				'permission_callback' => static function (): bool {
					return current_user_can( 'upload_files' );
				},
				'args'                => array(
					'ids' => array(
						'type'     => 'array',
						'items'    => array( 'type' => 'integer' ),
						'maxItems' => 100,
						'required' => true,
					),
				),
			)
		);
	}

	/**
	 * Returns the cells of the given images, by id.
	 *
	 * @param WP_REST_Request $request With `ids`.
	 * @return WP_REST_Response
	 */
	public static function rest_cells( WP_REST_Request $request ): WP_REST_Response {
		$cells = array();
		foreach ( Imgproc_Local_Images::editable( $request['ids'] ) as $id ) {
			$cells[ $id ] = array(
				'alt'     => self::alt_cell( $id ),
				'saved'   => self::saved_cell( $id ),
				'pending' => self::is_pending( $id ),
				'remark'  => self::remark( $id ),
			);
		}
		return new WP_REST_Response( (object) $cells );
	}
}
