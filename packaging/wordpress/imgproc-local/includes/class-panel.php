<?php
/**
 * The panel of one image: its state, the proposed alt texts to accept, and buttons to process it or write them again.
 *
 * It is shown in the attachment details of the grid and of the media modal, on the screen that edits an attachment, and
 * in the list of the media library.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Shows the panel and answers its requests.
 */
final class Imgproc_Local_Panel {

	/**
	 * Delay of an image that somebody waits for. It is negative: the queue is ordered by time, and this puts it first.
	 */
	const AHEAD_S = -YEAR_IN_SECONDS;

	/**
	 * Registers the hooks.
	 */
	public static function init(): void {
		add_filter( 'attachment_fields_to_edit', array( __CLASS__, 'add_field' ), 10, 2 );
		add_action( 'rest_api_init', array( __CLASS__, 'register_routes' ) );
	}

	/**
	 * Adds the panel to the fields of an attachment.
	 *
	 * @param array   $fields The fields.
	 * @param WP_Post $post   The attachment.
	 * @return array
	 */
	public static function add_field( array $fields, WP_Post $post ): array {
		if ( is_admin() && wp_attachment_is_image( $post->ID ) && current_user_can( 'edit_post', $post->ID ) ) {
			$fields['imgproc_local'] = array(
				'tr' => '<tr class="imgproc-local-row"><td colspan="2">' . self::html( $post->ID ) . '</td></tr>',
			);
		}
		return $fields;
	}

	/**
	 * Returns the panel of an image.
	 *
	 * @param int $id The attachment.
	 * @return string Escaped HTML.
	 */
	public static function html( int $id ): string {
		$state   = Imgproc_Local_Queue::state( $id );
		$pending = Imgproc_Local_Cells::is_pending( $id );
		$html    = sprintf(
			'<div class="imgproc-local-panel" id="imgproc-local-panel-%1$d" data-id="%1$d" tabindex="-1" role="group" aria-labelledby="imgproc-local-heading-%1$d"%2$s>',
			$id,
			$pending ? ' data-pending' : ''
		);
		$html   .= sprintf( '<h2 id="imgproc-local-heading-%d">%s</h2>', $id, esc_html__( 'Imgproc Local', 'imgproc-local' ) );
		$badge   = Imgproc_Local_Cells::badge( $id );
		$html   .= '' === $badge ? '' : '<p>' . $badge . '</p>';
		$html   .= self::saved( $id );
		if ( ! $pending ) {
			foreach ( $state['texts'] as $language => $text ) {
				$html .= self::text( $id, (string) $language, $text, count( $state['texts'] ) > 1 );
			}
			$html .= self::buttons( $state );
		}
		return $html . '</div>';
	}

	/**
	 * Returns the buttons for the whole image.
	 *
	 * @param array $state As returned by Imgproc_Local_Queue::state().
	 * @return string Escaped HTML.
	 */
	private static function buttons( array $state ): string {
		$labels = array( 'process' => 'failed' === $state['state'] ? __( 'Try again', 'imgproc-local' ) : __( 'Process image', 'imgproc-local' ) );
		if ( $state['texts'] ) {
			$labels = array( 'regenerate' => _n( 'Write the text again', 'Write the texts again', count( $state['texts'] ), 'imgproc-local' ) ) + $labels;
		}
		$html = '';
		foreach ( $labels as $action => $label ) {
			$html .= sprintf( '<button type="button" class="button" data-imgproc-action="%s">%s</button> ', esc_attr( $action ), esc_html( $label ) );
		}
		return '<p>' . $html . '</p>';
	}

	/**
	 * Returns how many bytes the smaller file saves.
	 *
	 * @param int $id The attachment.
	 * @return string Escaped HTML, empty if nothing was saved.
	 */
	private static function saved( int $id ): string {
		$saved = (int) get_post_meta( $id, Imgproc_Local_Queue::META_SAVED, true );
		if ( $saved <= 0 ) {
			return '';
		}
		/* translators: %s: Size of a file with its unit. */
		return '<p>' . esc_html( sprintf( __( 'Saved: %s', 'imgproc-local' ), Imgproc_Local_Cells::size( $saved ) ) ) . '</p>';
	}

	/**
	 * Returns the text of one language: the alt text in use, or the proposal with a button to accept it.
	 *
	 * @param int    $id       The attachment.
	 * @param string $language ISO 639-1.
	 * @param array  $text     With alt, filename, source and needs_text.
	 * @param bool   $several  Whether there are texts in other languages too.
	 * @return string Escaped HTML.
	 */
	private static function text( int $id, string $language, array $text, bool $several ): string {
		$name       = self::language_name( $language );
		$current    = Imgproc_Local_Cells::alt( $id );
		$is_primary = Imgproc_Local_Settings::language( $id ) === $language;
		if ( ! $is_primary ) {
			/* translators: %s: Name of a language. */
			$label  = sprintf( __( 'Alt text on pages in %s', 'imgproc-local' ), $name );
			$accept = __( 'Save this text', 'imgproc-local' );
		} else {
			$label  = $text['needs_text'] ? __( 'Alt text', 'imgproc-local' ) : __( 'Proposed alt text', 'imgproc-local' );
			$label .= $several ? ' (' . $name . ')' : '';
			$accept = '' === $current ? __( 'Use as alt text', 'imgproc-local' ) : __( 'Replace the alt text', 'imgproc-local' );
		}
		$html = sprintf( '<div class="imgproc-local-text" data-language="%s">', esc_attr( $language ) );
		if ( $is_primary && '' !== $current && $text['alt'] === $current ) {
			$html .= sprintf( '<p><strong>%s</strong></p><p lang="%s" dir="auto">%s</p>', esc_html__( 'Alt text in use', 'imgproc-local' ), esc_attr( $language ), esc_html( $current ) );
			$html .= self::origin( $text );
		} else {
			$html .= self::editor( $id, $language, $text, $label ) . self::origin( $text );
			$html .= sprintf( '<p><button type="button" class="button button-primary" data-imgproc-action="accept">%s</button></p>', esc_html( $accept ) );
		}
		return $html . '</div>';
	}

	/**
	 * Returns the name of a language in the language itself, or its code if the service’s list is not cached.
	 *
	 * @param string $language ISO 639-1.
	 * @return string
	 */
	private static function language_name( string $language ): string {
		$known = get_transient( 'imgproc_local_languages' );
		return is_array( $known ) && isset( $known[ $language ] ) ? $known[ $language ] : $language;
	}

	/**
	 * Returns the field in which a proposed text is reviewed. It is empty if a person has to write the text.
	 *
	 * @param int    $id       The attachment.
	 * @param string $language ISO 639-1.
	 * @param array  $text     With alt and needs_text.
	 * @param string $label    The label of the field.
	 * @return string Escaped HTML.
	 */
	private static function editor( int $id, string $language, array $text, string $label ): string {
		$field    = 'imgproc-local-text-' . $id . '-' . $language;
		$proposal = $text['needs_text'] ? '' : $text['alt'];
		return sprintf(
			'<label for="%1$s">%2$s</label><textarea id="%1$s" rows="3" maxlength="250" lang="%3$s" dir="auto">%4$s</textarea>',
			esc_attr( $field ),
			esc_html( $label ),
			esc_attr( $language ),
			esc_textarea( $proposal )
		);
	}

	/**
	 * Returns how a text was made, and the suggested file name.
	 *
	 * @param array $text With alt, filename, source and needs_text.
	 * @return string Escaped HTML.
	 */
	private static function origin( array $text ): string {
		$origins = array(
			'vision'   => __( 'Written by the vision model.', 'imgproc-local' ),
			'embedded' => __( 'From the text in the file.', 'imgproc-local' ),
			'facts'    => __( 'Made from the captions and keywords in the file.', 'imgproc-local' ),
			'person'   => __( 'Written by a person.', 'imgproc-local' ),
		);
		$origin  = $origins[ $text['source'] ] ?? '';
		if ( $text['needs_text'] ) {
			$origin = __( 'A person has to write this text.', 'imgproc-local' );
			if ( '' !== $text['alt'] ) {
				/* translators: %s: What the service could tell of the image, such as its date. */
				$origin .= ' ' . sprintf( __( 'The service only knows: “%s”', 'imgproc-local' ), $text['alt'] );
			}
		}
		$html = '' === $origin ? '' : '<p class="description">' . esc_html( $origin ) . '</p>';
		if ( '' !== $text['filename'] ) {
			/* translators: %s: A file name without extension. */
			$html .= '<p class="description">' . sprintf( esc_html__( 'Suggested file name: %s', 'imgproc-local' ), '<code>' . esc_html( $text['filename'] ) . '</code>' ) . '</p>';
		}
		return $html;
	}

	/**
	 * Registers the routes of the panel.
	 */
	public static function register_routes(): void {
		$language = array(
			'type'     => 'string',
			'pattern'  => '^[a-z]{2,3}$',
			'required' => true,
		);
		self::register_route( 'panel', WP_REST_Server::READABLE, 'rest_panel', array() );
		self::register_route( 'process', WP_REST_Server::CREATABLE, 'rest_process', array() );
		self::register_route( 'regenerate', WP_REST_Server::CREATABLE, 'rest_regenerate', array() );
		$alt = array(
			'type'      => 'string',
			'maxLength' => 1000,
			'required'  => true,
		);
		self::register_route(
			'accept',
			WP_REST_Server::CREATABLE,
			'rest_accept',
			array(
				'language' => $language,
				'alt'      => $alt,
			)
		);
	}

	/**
	 * Registers one route below an attachment, for those who may edit it.
	 *
	 * @param string $name     The last part of the path.
	 * @param string $methods  HTTP methods.
	 * @param string $callback A method of this class.
	 * @param array  $args     Parameters.
	 */
	private static function register_route( string $name, string $methods, string $callback, array $args ): void {
		register_rest_route(
			'imgproc-local/v1',
			'/attachments/(?P<id>\d+)/' . $name,
			array(
				'methods'             => $methods,
				'callback'            => array( __CLASS__, $callback ),
				'permission_callback' => static function ( WP_REST_Request $request ): bool {
					return array() !== Imgproc_Local_Images::editable( array( $request['id'] ) );
				},
				'args'                => $args,
			)
		);
	}

	/**
	 * Answers with the panel of an image.
	 *
	 * @param WP_REST_Request $request With `id`.
	 * @return WP_REST_Response
	 */
	public static function rest_panel( WP_REST_Request $request ): WP_REST_Response {
		return self::answer( (int) $request['id'] );
	}

	/**
	 * Puts an image at the head of the queue.
	 *
	 * @param WP_REST_Request $request With `id`.
	 * @return WP_REST_Response|WP_Error
	 */
	public static function rest_process( WP_REST_Request $request ) {
		return self::add( (int) $request['id'], array() );
	}

	/**
	 * Has the texts written again as proposals: an alt text in use stays until another one is accepted.
	 *
	 * @param WP_REST_Request $request With `id`.
	 * @return WP_REST_Response|WP_Error
	 */
	public static function rest_regenerate( WP_REST_Request $request ) {
		return self::add(
			(int) $request['id'],
			array(
				'texts_only' => true,
				'force'      => true,
				'preview'    => true,
			)
		);
	}

	/**
	 * Puts an image at the head of the queue, because somebody waits for it.
	 *
	 * @param int   $id   The attachment.
	 * @param array $args Arguments of Imgproc_Local_Queue::add().
	 * @return WP_REST_Response|WP_Error
	 */
	private static function add( int $id, array $args ) {
		$result = Imgproc_Local_Queue::add( $id, $args, self::AHEAD_S );
		if ( is_wp_error( $result ) ) {
			return Imgproc_Local_Notices::rest_error( $result );
		}
		Imgproc_Local_Background::start();
		return self::answer( $id );
	}

	/**
	 * Stores a reviewed text with the attachment.
	 *
	 * @param WP_REST_Request $request With `id`, `language` and `alt`.
	 * @return WP_REST_Response|WP_Error
	 */
	public static function rest_accept( WP_REST_Request $request ) {
		$alt = trim( wp_strip_all_tags( $request['alt'], true ) );
		if ( '' === $alt ) {
			return new WP_Error( 'imgproc_local_no_text', __( 'Write an alt text first: the field is empty.', 'imgproc-local' ), array( 'status' => 400 ) );
		}
		$result = Imgproc_Local_Attachment::accept_text( (int) $request['id'], $request['language'], $alt );
		return is_wp_error( $result ) ? Imgproc_Local_Notices::rest_error( $result ) : self::answer( (int) $request['id'] );
	}

	/**
	 * Returns the answer to each request: what the script then shows.
	 *
	 * @param int $id The attachment.
	 * @return WP_REST_Response
	 */
	private static function answer( int $id ): WP_REST_Response {
		return new WP_REST_Response(
			array(
				'html'    => self::html( $id ),
				'alt'     => Imgproc_Local_Cells::alt( $id ),
				'pending' => Imgproc_Local_Cells::is_pending( $id ),
				'remark'  => Imgproc_Local_Cells::remark( $id ),
			)
		);
	}
}
