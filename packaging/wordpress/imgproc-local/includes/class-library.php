<?php
/**
 * The media library: columns, row and bulk actions, the filters, and the panel of one image.
 *
 * The panel is shown in the attachment details of the grid and of the media modal, on the screen that edits an
 * attachment, and in the list of the media library.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Adds the plugin's columns, filters, actions and panel to the media library. Here, a filter is a selection of images by
 * the state of their alt text or of their processing, not a WordPress hook.
 */
final class Imgproc_Local_Library {

	/**
	 * The bulk action, and the query variable of the filter.
	 */
	const ACTION = 'imgproc_local_process';
	const FILTER = 'imgproc_local';

	/**
	 * Most images of one request, so that no request grows with the library.
	 */
	const PAGE_SIZE = 100;

	/**
	 * Schema of the ids of images in such a request.
	 */
	const IDS = array(
		'type'     => 'array',
		'items'    => array( 'type' => 'integer' ),
		'maxItems' => self::PAGE_SIZE,
	);

	/**
	 * Delay of an image that somebody waits for. It is negative: the queue is ordered by time, and this puts it first.
	 */
	const AHEAD_S = -YEAR_IN_SECONDS;

	/**
	 * Registers the hooks.
	 */
	public static function init(): void {
		add_filter( 'manage_media_columns', array( __CLASS__, 'add_columns' ) );
		add_action( 'manage_media_custom_column', array( __CLASS__, 'print_column' ), 10, 2 );
		add_action( 'restrict_manage_posts', array( __CLASS__, 'print_filter' ) );
		add_action( 'pre_get_posts', array( __CLASS__, 'filter_query' ) );
		add_filter( 'wp_prepare_attachment_for_js', array( __CLASS__, 'add_grid_state' ), 10, 2 );
		add_filter( 'media_row_actions', array( __CLASS__, 'add_row_actions' ), 10, 2 );
		add_filter( 'bulk_actions-upload', array( __CLASS__, 'add_bulk_action' ) );
		add_filter( 'handle_bulk_actions-upload', array( __CLASS__, 'handle_bulk_action' ), 10, 3 );
		add_filter( 'attachment_fields_to_edit', array( __CLASS__, 'add_field' ), 10, 2 );
		add_action( 'admin_enqueue_scripts', array( __CLASS__, 'enqueue_on_screen' ) );
		add_action( 'wp_enqueue_media', array( __CLASS__, 'enqueue' ) );
		add_action( 'rest_api_init', array( __CLASS__, 'register_routes' ) );
	}

	/**
	 * Loads the script on the screens that list or edit attachments outside the media modal.
	 *
	 * @param string $hook The current admin page.
	 */
	public static function enqueue_on_screen( string $hook ): void {
		if ( 'upload.php' === $hook || ( 'post.php' === $hook && 'attachment' === get_current_screen()->post_type ) ) {
			self::enqueue();
		}
	}

	/**
	 * Loads the script of the library.
	 */
	public static function enqueue(): void {
		if ( is_admin() && current_user_can( 'upload_files' ) ) {
			imgproc_local_enqueue( 'library', did_action( 'wp_enqueue_media' ) ? array( 'media-views' ) : array(), self::filters() );
		}
	}

	/**
	 * Returns the label of each filter, by its name.
	 *
	 * @return array<string, string>
	 */
	public static function filters(): array {
		return array(
			'needs_text' => __( 'Needs a text', 'imgproc-local' ),
			'no_alt'     => __( 'Without alt text', 'imgproc-local' ),
			'new'        => __( 'Not processed yet', 'imgproc-local' ),
			'waiting'    => __( 'Waiting or in progress', 'imgproc-local' ),
			'failed'     => __( 'Failed', 'imgproc-local' ),
			'skipped'    => __( 'Skipped', 'imgproc-local' ),
		);
	}

	/**
	 * Returns the meta query of a filter, or an empty array if it lists all images.
	 *
	 * @param string $filter A key of filters(); any other name lists all images.
	 * @return array<mixed>
	 */
	private static function meta_query( string $filter ): array {
		$state = array( 'key' => Imgproc_Local_Queue::META_STATE );
		$alt   = array( 'key' => Imgproc_Local_Attachment::ALT );
		switch ( $filter ) {
			case 'needs_text': // The service has no description of the image, and nobody has written an alt text.
				return array( array( 'key' => Imgproc_Local_Queue::META_NEEDS_TEXT ) + array( 'value' => '1' ) );
			case 'no_alt':
				$decorative = array( 'key' => Imgproc_Local_Attachment::DECORATIVE );
				return array( array( 'relation' => 'OR' ) + array( $alt + array( 'compare' => 'NOT EXISTS' ), $alt + array( 'value' => '' ) ), $decorative + array( 'compare' => 'NOT EXISTS' ) );
			case 'new':
				return array( $state + array( 'compare' => 'NOT EXISTS' ) );
			case 'waiting':
				return array( $state + array( 'value' => array( 'waiting', Imgproc_Local_Queue::SENDING, 'sent' ) ) );
			case 'failed':
			case 'skipped':
				return array( $state + array( 'value' => $filter ) );
		}
		return array();
	}

	/**
	 * Returns the images that a filter lists.
	 *
	 * @param string $filter A key of filters(), or `all`.
	 * @param array  $args   Further arguments of the WP_Query.
	 * @return WP_Query Its posts are ids.
	 */
	private static function query( string $filter, array $args ): WP_Query {
		$selection = array(
			'post_type'      => 'attachment',
			'post_status'    => array( 'inherit', 'private' ),
			'post_mime_type' => 'image',
			'meta_query'     => self::meta_query( $filter ), // phpcs:ignore WordPress.DB.SlowDBQuery.slow_db_query_meta_query -- The state of an attachment is in its meta.
			'fields'         => 'ids',
		);
		return new WP_Query( $selection + $args );
	}

	/**
	 * Returns the number of images that a filter lists.
	 *
	 * @param string $filter A key of filters(), or `all`.
	 * @return int
	 */
	public static function count( string $filter ): int {
		return (int) self::query( $filter, array( 'posts_per_page' => 1 ) )->found_posts;
	}

	/**
	 * Returns the ids of the next images that a filter lists, in ascending order.
	 *
	 * A page begins after an id and not at an offset, because processed images can leave the list between two pages.
	 *
	 * @param string $filter A key of filters(), or `all`.
	 * @param int    $after  Only ids greater than this one.
	 * @param int    $limit  The largest number of ids, 1 to 1000.
	 * @return int[]
	 */
	public static function ids( string $filter, int $after, int $limit ): array {
		$greater = static function ( string $where ) use ( $after ): string {
			global $wpdb;
			return $where . $wpdb->prepare( " AND {$wpdb->posts}.ID > %d", $after );
		};
		add_filter( 'posts_where', $greater );
		$args  = array(
			'posts_per_page' => $limit,
			'orderby'        => 'ID',
			'order'          => 'ASC',
			'no_found_rows'  => true,
		);
		$query = self::query( $filter, $args );
		remove_filter( 'posts_where', $greater );
		return array_map( 'intval', $query->posts );
	}

	/**
	 * Returns those of the ids that are images that the current user may edit.
	 *
	 * @param array $ids Attachment ids.
	 * @return int[]
	 */
	public static function editable( array $ids ): array {
		$ids = array_unique( array_map( 'absint', $ids ) );
		_prime_post_caches( $ids, false );
		$is_editable = static function ( int $id ): bool {
			return wp_attachment_is_image( $id ) && current_user_can( 'edit_post', $id );
		};
		return array_values( array_filter( $ids, $is_editable ) );
	}

	/**
	 * Adds the columns before the date.
	 *
	 * @param string[] $columns Labels by the name of the column.
	 * @return string[]
	 */
	public static function add_columns( array $columns ): array {
		$added    = array(
			'imgproc_local_alt'   => __( 'Alt text', 'imgproc-local' ),
			'imgproc_local_saved' => __( 'Saved', 'imgproc-local' ),
		);
		$position = array_search( 'date', array_keys( $columns ), true );
		$position = false === $position ? count( $columns ) : $position;
		return array_slice( $columns, 0, $position, true ) + $added + array_slice( $columns, $position, null, true );
	}

	/**
	 * Prints the plugin's cells of a row.
	 *
	 * @param string $column The name of the column.
	 * @param int    $id     The attachment.
	 */
	public static function print_column( string $column, int $id ): void {
		$fields = array(
			'imgproc_local_alt'   => array( 'cell', self::alt_cell( $id ) ),
			'imgproc_local_saved' => array( 'saved', self::saved_cell( $id ) ),
		);
		if ( isset( $fields[ $column ] ) ) {
			list( $field, $html ) = $fields[ $column ];
			printf( '<div class="imgproc-local-cell" data-field="%s" data-id="%d"%s>%s</div>', esc_attr( $field ), (int) $id, self::is_pending( $id ) ? ' data-pending' : '', $html ); // phpcs:ignore WordPress.Security.EscapeOutput.OutputNotEscaped -- both cells escape.
		}
	}

	/**
	 * Prints the filter above the list.
	 *
	 * @param string $post_type The post type of the list.
	 */
	public static function print_filter( string $post_type ): void {
		if ( 'attachment' !== $post_type ) {
			return;
		}
		echo '<label for="imgproc-local-filter" class="screen-reader-text">' . esc_html__( 'Filter by alt text', 'imgproc-local' ) . '</label>';
		printf( '<select class="attachment-filters" id="imgproc-local-filter" name="%s">', esc_attr( self::FILTER ) );
		foreach ( array( '' => __( 'All alt texts', 'imgproc-local' ) ) + self::filters() as $name => $label ) {
			printf( '<option value="%s"%s>%s</option>', esc_attr( $name ), selected( self::requested_filter(), $name, false ), esc_html( $label ) );
		}
		echo '</select>';
	}

	/**
	 * Returns the filter of the current request, or an empty string.
	 *
	 * @return string A key of filters().
	 */
	private static function requested_filter(): string {
		// phpcs:disable WordPress.Security.NonceVerification.Recommended -- A filter of a list changes nothing.
		$source = isset( $_REQUEST['query'] ) && is_array( $_REQUEST['query'] ) ? $_REQUEST['query'] : $_GET; // phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- Sanitized in the next line.
		$name   = isset( $source[ self::FILTER ] ) && is_string( $source[ self::FILTER ] ) ? sanitize_key( wp_unslash( $source[ self::FILTER ] ) ) : '';
		// phpcs:enable
		return array_key_exists( $name, self::filters() ) ? $name : '';
	}

	/**
	 * Applies the filter to the list, the grid and the media modal.
	 *
	 * @param WP_Query $query A query.
	 */
	public static function filter_query( WP_Query $query ): void {
		$is_list = is_admin() && $query->is_main_query();
		if ( 'attachment' === $query->get( 'post_type' ) && ( $is_list || doing_action( 'wp_ajax_query-attachments' ) ) && '' !== self::requested_filter() ) {
			$query->set( 'meta_query', array_filter( array_merge( (array) $query->get( 'meta_query' ), array( self::meta_query( self::requested_filter() ) ) ) ) );
			$query->set( 'post_mime_type', $query->get( 'post_mime_type' ) ? $query->get( 'post_mime_type' ) : 'image' );
		}
	}

	/**
	 * Adds an image’s remark to its data for the grid and the modal.
	 *
	 * @param array   $response   The attachment’s data for JavaScript.
	 * @param WP_Post $attachment The attachment.
	 * @return array
	 */
	public static function add_grid_state( array $response, WP_Post $attachment ): array {
		if ( wp_attachment_is_image( $attachment->ID ) ) {
			$response['imgprocLocal'] = self::remark( $attachment->ID );
		}
		return $response;
	}

	/**
	 * Adds “Alt text” and “Process” to the actions of a row.
	 *
	 * @param string[] $actions Links by the name of the action.
	 * @param WP_Post  $post    The attachment.
	 * @return string[]
	 */
	public static function add_row_actions( array $actions, WP_Post $post ): array {
		if ( ! self::editable( array( $post->ID ) ) || 'trash' === $post->post_status ) {
			return $actions;
		}
		$title = _draft_or_post_title( $post );
		$links = array(
			'imgproc_local_review' => array(
				get_edit_post_link( $post->ID, 'raw' ) . '#imgproc-local-panel-' . $post->ID,
				/* translators: %s: Attachment title. */
				sprintf( __( 'Review the alt text of &#8220;%s&#8221;', 'imgproc-local' ), $title ),
				__( 'Alt text', 'imgproc-local' ),
			),
			self::ACTION           => array(
				wp_nonce_url( admin_url( 'upload.php?action=' . self::ACTION . '&media[]=' . $post->ID ), 'bulk-media' ),
				/* translators: %s: Attachment title. */
				sprintf( __( 'Process &#8220;%s&#8221; with Imgproc Local', 'imgproc-local' ), $title ),
				_x( 'Process', 'verb', 'imgproc-local' ),
			),
		);
		foreach ( $links as $name => list( $url, $label, $text ) ) {
			$actions[ $name ] = sprintf( '<a href="%s" class="%s" data-id="%d" aria-label="%s">%s</a>', esc_url( $url ), esc_attr( $name ), $post->ID, esc_attr( $label ), esc_html( $text ) );
		}
		return $actions;
	}

	/**
	 * Adds the bulk action.
	 *
	 * @param string[] $actions Labels by the name of the action.
	 * @return string[]
	 */
	public static function add_bulk_action( array $actions ): array {
		return $actions + array( self::ACTION => __( 'Process with Imgproc Local', 'imgproc-local' ) );
	}

	/**
	 * Adds the chosen images to the queue.
	 *
	 * The media library has verified the nonce. A list has at most 999 rows, so one request adds no more than that.
	 *
	 * @param string $location Where the browser is sent afterwards.
	 * @param string $action   The chosen bulk action.
	 * @param array  $ids      The chosen attachments.
	 * @return string
	 */
	public static function handle_bulk_action( string $location, string $action, $ids ): string {
		return self::ACTION === $action ? add_query_arg( 'imgproc_local_added', Imgproc_Local_Queue::add_many( self::editable( (array) $ids ) ), $location ) : $location;
	}

	/**
	 * Returns whether an image waits for the service or is being processed.
	 *
	 * @param int $id The attachment.
	 * @return bool
	 */
	private static function is_pending( int $id ): bool {
		return 'waiting' === self::remark( $id )['kind'];
	}

	/**
	 * Returns the alt text of an attachment, or an empty string.
	 *
	 * @param int $id The attachment.
	 * @return string
	 */
	private static function alt( int $id ): string {
		return (string) get_post_meta( $id, Imgproc_Local_Attachment::ALT, true );
	}

	/**
	 * Returns what is to be said about an image: its state in the queue, or that it has no alt text. All fields are empty if
	 * there is nothing to say.
	 *
	 * @param int $id The attachment.
	 * @return array{kind: string, label: string, reason: string} The end of the CSS class, a text, and the reason if there is one.
	 */
	private static function remark( int $id ): array {
		$state  = Imgproc_Local_Queue::state( $id );
		$labels = array(
			'waiting'    => __( 'Waiting', 'imgproc-local' ),
			'sent'       => __( 'In progress', 'imgproc-local' ),
			'failed'     => __( 'Failed', 'imgproc-local' ),
			'skipped'    => __( 'Skipped', 'imgproc-local' ),
			'needs-text' => __( 'Needs a text', 'imgproc-local' ),
			'no-alt'     => __( 'No alt text', 'imgproc-local' ),
			'decorative' => __( 'Decorative', 'imgproc-local' ),
		);
		$text   = $state['texts'][ Imgproc_Local_Settings::language( $id ) ] ?? array();
		$kind   = $state['state'];
		if ( ! isset( $labels[ $kind ] ) ) {
			$needs_text = '1' === (string) get_post_meta( $id, Imgproc_Local_Queue::META_NEEDS_TEXT, true );
			$kind       = $needs_text ? 'needs-text' : 'no-alt';
			$kind       = Imgproc_Local_Attachment::is_decorative( $id ) ? 'decorative' : $kind;
			$kind       = '' === self::alt( $id ) ? $kind : '';
		}
		$reasons = array(
			'failed'     => $state['error'],
			'skipped'    => $state['error'],
			'needs-text' => self::why( $text ),
			'decorative' => __( 'Screen readers skip this image.', 'imgproc-local' ),
		);
		return array(
			'kind'   => 'sent' === $kind ? 'waiting' : $kind,
			'label'  => $labels[ $kind ] ?? '',
			'reason' => $reasons[ $kind ] ?? '',
		);
	}

	/**
	 * Returns why a person has to write a text, or an empty string.
	 *
	 * @param array $text With `reason`, the needs_text_reason of the service.
	 * @return string
	 */
	private static function why( array $text ): string {
		$reasons = array(
			'nothing_known'      => __( 'Nothing is known but kind and date.', 'imgproc-local' ),
			'other_language'     => __( 'What is known is in another language.', 'imgproc-local' ),
			'place_or_date_only' => __( 'Only a place or a date is known.', 'imgproc-local' ),
			'unread_text'        => __( 'The image shows text that could not be read.', 'imgproc-local' ),
		);
		return $reasons[ $text['reason'] ?? '' ] ?? '';
	}

	/**
	 * Returns the remark of an image as HTML, with the reason why it seems to be decorative, or an empty string.
	 *
	 * @param int $id The attachment.
	 * @return string Escaped HTML.
	 */
	private static function badge( int $id ): string {
		$remark = self::remark( $id );
		$reason = 'decorative' === $remark['kind'] ? '' : Imgproc_Local_Queue::state( $id )['suggested'] ?? '';
		/* translators: %s: A sentence that says why. */
		$html = '' === $reason ? '' : '<p class="description">' . esc_html( sprintf( __( 'This image seems to be decorative. %s', 'imgproc-local' ), $reason ) ) . '</p>';
		return $html . ( '' === $remark['kind'] ? '' : sprintf( '<p><span class="imgproc-local-badge imgproc-local-%s">%s</span> <span class="imgproc-local-reason">%s</span></p>', esc_attr( $remark['kind'] ), esc_html( $remark['label'] ), esc_html( $remark['reason'] ) ) );
	}

	/**
	 * Returns the content of the column “Alt text”.
	 *
	 * @param int $id The attachment.
	 * @return string Escaped HTML.
	 */
	private static function alt_cell( int $id ): string {
		return wp_attachment_is_image( $id ) ? sprintf( '<span class="imgproc-local-alt">%s</span>', esc_html( self::alt( $id ) ) ) . self::badge( $id ) : '';
	}

	/**
	 * Returns the content of the column “Saved”: a size with its unit, bytes as a whole number, larger units with one decimal.
	 *
	 * @param int $id The attachment.
	 * @return string Escaped HTML.
	 */
	private static function saved_cell( int $id ): string {
		$bytes = (int) get_post_meta( $id, Imgproc_Local_Queue::META_SAVED, true );
		return $bytes > 0 ? esc_html( size_format( $bytes, $bytes < KB_IN_BYTES ? 0 : 1 ) ) : '';
	}

	/**
	 * Adds the panel to the fields of an attachment.
	 *
	 * @param array   $fields The fields.
	 * @param WP_Post $post   The attachment.
	 * @return array
	 */
	public static function add_field( array $fields, WP_Post $post ): array {
		if ( is_admin() && self::editable( array( $post->ID ) ) ) {
			$fields['imgproc_local'] = array( 'tr' => '<tr class="imgproc-local-row"><td colspan="2">' . self::panel( $post->ID ) . '</td></tr>' );
		}
		return $fields;
	}

	/**
	 * Returns the panel of an image: its state, and unless it waits, the texts and the buttons.
	 *
	 * @param int $id The attachment.
	 * @return string Escaped HTML.
	 */
	private static function panel( int $id ): string {
		$state = Imgproc_Local_Queue::state( $id );
		$saved = self::saved_cell( $id );
		/* translators: %s: Size of a file with its unit. */
		$html    = self::badge( $id ) . ( '' === $saved ? '' : '<p>' . sprintf( esc_html__( 'Saved: %s', 'imgproc-local' ), $saved ) . '</p>' ) . self::served( $id, $state );
		$pending = self::is_pending( $id );
		if ( Imgproc_Local_Attachment::is_decorative( $id ) ) {
			$html .= self::button( 'informative', __( 'Not decorative', 'imgproc-local' ) );
		} elseif ( ! $pending ) {
			foreach ( $state['texts'] as $language => $text ) {
				$html .= self::text( $id, (string) $language, $text, count( $state['texts'] ) > 1 );
			}
			$html .= $state['texts'] ? self::button( 'regenerate', _n( 'Write the text again', 'Write the texts again', count( $state['texts'] ), 'imgproc-local' ) ) : '';
			$html .= self::button( 'process', 'failed' === $state['state'] ? __( 'Try again', 'imgproc-local' ) : __( 'Process image', 'imgproc-local' ) );
			$html .= self::button( 'decorative', __( 'Mark as decorative', 'imgproc-local' ) );
		}
		return sprintf( '<div class="imgproc-local-panel" id="imgproc-local-panel-%1$d" data-id="%1$d" tabindex="-1" role="group" aria-label="Imgproc Local"%2$s><p><strong>Imgproc Local</strong></p>%3$s</div>', $id, $pending ? ' data-pending' : '', $html );
	}

	/**
	 * Returns which file visitors receive in full size, if an image has a copy or none because it would be larger.
	 *
	 * @param int   $id    The attachment.
	 * @param array $state State of the attachment.
	 * @return string Escaped HTML.
	 */
	private static function served( int $id, array $state ): string {
		$published = (string) get_attached_file( $id );
		$copy      = Imgproc_Local_Files::copy_of( trailingslashit( dirname( $published ) ), wp_basename( $published ), $state['files'] );
		$format    = '' === $copy ? $state['larger_as'] ?? '' : pathinfo( $copy, PATHINFO_EXTENSION );
		/* translators: %s: WEBP or AVIF. */
		$text = '' === $copy ? __( 'Visitors receive this file: as %s it would not be smaller.', 'imgproc-local' ) : __( 'Visitors receive a smaller copy as %s where their browser shows it.', 'imgproc-local' );
		return '' === $format ? '' : '<p>' . esc_html( sprintf( $text, strtoupper( $format ) ) ) . '</p>';
	}

	/**
	 * Returns a button of the panel.
	 *
	 * @param string $action What it does, see rest_act().
	 * @param string $label  Its text.
	 * @return string Escaped HTML.
	 */
	private static function button( string $action, string $label ): string {
		return sprintf( '<button type="button" class="button %s" data-imgproc-action="%s">%s</button> ', 'accept' === $action ? 'button-primary' : '', esc_attr( $action ), esc_html( $label ) );
	}

	/**
	 * Returns the text of one language: the alt text in use, or a field with the proposal and a button to accept it. The
	 * field is empty if a person has to write the text.
	 *
	 * @param int    $id       The attachment.
	 * @param string $language ISO 639-1.
	 * @param array  $text     With alt, filename, source and needs_text.
	 * @param bool   $several  Whether there are texts in other languages too.
	 * @return string Escaped HTML.
	 */
	private static function text( int $id, string $language, array $text, bool $several ): string {
		$name       = ( (array) get_transient( Imgproc_Local_Settings::KNOWN ) )[ $language ] ?? $language;
		$current    = self::alt( $id );
		$is_primary = Imgproc_Local_Settings::language( $id ) === $language;
		if ( $is_primary ) {
			$label  = $text['needs_text'] ? __( 'Alt text', 'imgproc-local' ) : __( 'Proposed alt text', 'imgproc-local' );
			$label .= $several ? ' (' . $name . ')' : '';
			$accept = '' === $current ? __( 'Use as alt text', 'imgproc-local' ) : __( 'Replace the alt text', 'imgproc-local' );
		} else {
			/* translators: %s: Name of a language. */
			$label  = sprintf( __( 'Alt text on pages in %s', 'imgproc-local' ), $name );
			$accept = __( 'Save this text', 'imgproc-local' );
		}
		$html   = sprintf(
			'<p><label><strong>%s</strong><textarea class="widefat" rows="3" maxlength="250" lang="%s" dir="auto">%s</textarea></label></p>',
			esc_html( $label ),
			esc_attr( $language ),
			esc_textarea( $text['needs_text'] ? '' : $text['alt'] )
		);
		$button = self::button( 'accept', $accept );
		if ( $is_primary && '' !== $current && $text['alt'] === $current ) {
			$button = '';
			$html   = sprintf( '<p><strong>%s</strong></p><p lang="%s" dir="auto">%s</p>', esc_html__( 'Alt text in use', 'imgproc-local' ), esc_attr( $language ), esc_html( $current ) );
		}
		return sprintf( '<div class="imgproc-local-text" data-language="%s">%s<p class="description">%s</p>%s</div>', esc_attr( $language ), $html, esc_html( self::origin( $text ) ), $button );
	}

	/**
	 * Returns how a text was made, and the suggested file name.
	 *
	 * @param array $text With alt, filename, source and needs_text.
	 * @return string
	 */
	private static function origin( array $text ): string {
		$origins = array(
			'vision'   => __( 'Written by the vision model.', 'imgproc-local' ),
			'embedded' => __( 'From the text in the file.', 'imgproc-local' ),
			'facts'    => __( 'Made from the captions and keywords in the file.', 'imgproc-local' ),
			'person'   => __( 'Written by a person.', 'imgproc-local' ),
		);
		$parts   = array( $text['needs_text'] ? trim( __( 'A person has to write this text.', 'imgproc-local' ) . ' ' . self::why( $text ) ) : $origins[ $text['source'] ] ?? '' );
		if ( $text['needs_text'] && '' !== $text['alt'] ) {
			/* translators: %s: What the service could tell of the image, such as its date. */
			$parts[] = sprintf( __( 'The service only knows: “%s”', 'imgproc-local' ), $text['alt'] );
		}
		if ( '' !== $text['filename'] ) {
			/* translators: %s: A file name without extension. */
			$parts[] = sprintf( __( 'Suggested file name: %s', 'imgproc-local' ), $text['filename'] );
		}
		return implode( ' ', $parts );
	}

	/**
	 * Registers the routes: what is shown of images, and what the buttons of a panel do.
	 */
	public static function register_routes(): void {
		$may_see  = static function (): bool {
			return current_user_can( 'upload_files' );
		};
		$may_edit = static function ( WP_REST_Request $request ): bool {
			return array() !== self::editable( array( $request['id'] ) );
		};
		$action   = array(
			'type'     => 'string',
			'enum'     => array( 'process', 'regenerate', 'accept', 'decorative', 'informative' ),
			'required' => true,
		);
		$language = array(
			'type'    => 'string',
			'pattern' => '^[a-z]{2,3}$',
		);
		$alt      = array( 'type' => 'string' );
		$replace  = array( 'type' => 'boolean' );
		imgproc_local_route( '/images', 'GET', array( __CLASS__, 'rest_show' ), $may_see, array( 'ids' => self::IDS + array( 'required' => true ) ) );
		imgproc_local_route( '/images/(?P<id>\d+)', 'POST', array( __CLASS__, 'rest_act' ), $may_edit, compact( 'action', 'language', 'alt', 'replace' ) );
	}

	/**
	 * Returns what the script shows of the given images, by id.
	 *
	 * @param WP_REST_Request $request With `ids`.
	 * @return object
	 */
	public static function rest_show( WP_REST_Request $request ) {
		$shown = array();
		foreach ( self::editable( $request['ids'] ) as $id ) {
			$shown[ $id ] = array(
				'panel'   => self::panel( $id ),
				'cell'    => self::alt_cell( $id ),
				'saved'   => self::saved_cell( $id ),
				'alt'     => self::alt( $id ),
				'pending' => self::is_pending( $id ),
				'remark'  => self::remark( $id ),
			);
		}
		return rest_ensure_response( (object) $shown );
	}

	/**
	 * Puts an image at the head of the queue (`process`), has its texts written again as proposals, so that an alt text in
	 * use stays until another one is accepted (`regenerate`), or stores a reviewed text with it (`accept`). Texts that a
	 * person has written are written again only with `replace`. `decorative` and `informative` set and remove that mark.
	 *
	 * @param WP_REST_Request $request With `id`, `action`, `language`, `alt` and `replace`.
	 * @return object|WP_Error What the script then shows; text_of_person asks a question.
	 */
	public static function rest_act( WP_REST_Request $request ) {
		$id    = (int) $request['id'];
		$own   = wp_list_pluck( wp_list_filter( Imgproc_Local_Queue::state( $id )['texts'], array( 'source' => 'person' ) ), 'alt' );
		$again = array(
			'texts_only' => true,
			'force'      => true,
			'preview'    => true,
			'replace'    => (bool) $request['replace'],
		);
		if ( 'accept' === $request['action'] ) {
			$result = Imgproc_Local_Attachment::accept_text( $id, (string) $request['language'], (string) $request['alt'] );
		} elseif ( in_array( $request['action'], array( 'decorative', 'informative' ), true ) ) {
			$result = Imgproc_Local_Attachment::set_decorative( $id, 'decorative' === $request['action'] );
		} elseif ( 'regenerate' === $request['action'] && ! $again['replace'] && array() !== $own ) {
			/* translators: %s: The texts that would be lost. */
			$result = new WP_Error( 'text_of_person', sprintf( __( 'A person wrote these texts: %s Replace them by proposals?', 'imgproc-local' ), implode( ' ', $own ) ) );
		} else {
			$result = Imgproc_Local_Queue::add( $id, 'regenerate' === $request['action'] ? $again : array(), self::AHEAD_S );
		}
		if ( is_wp_error( $result ) ) {
			$result->add_data( array( 'status' => 422 ) );
			return $result;
		}
		$request['ids'] = array( $id );
		return self::rest_show( $request );
	}
}
