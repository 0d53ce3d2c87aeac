<?php
/**
 * The media library: columns, row and bulk actions in the list; the filters of class-images.php in the list and the grid.
 *
 * The contents of the cells are in class-cells.php, the panel of a single image in class-panel.php.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Adds the plugin's columns, filters and actions to the media library.
 */
final class Imgproc_Local_Library {

	/**
	 * The bulk action, and the query variable of the filter.
	 */
	const ACTION = 'imgproc_local_process';
	const FILTER = 'imgproc_local';

	/**
	 * Registers the hooks.
	 */
	public static function init(): void {
		add_filter( 'manage_media_columns', array( __CLASS__, 'add_columns' ) );
		add_filter( 'manage_upload_sortable_columns', array( __CLASS__, 'sortable_columns' ) );
		add_action( 'restrict_manage_posts', array( __CLASS__, 'print_filter' ) );
		add_action( 'pre_get_posts', array( __CLASS__, 'filter_list' ) );
		add_filter( 'ajax_query_attachments_args', array( __CLASS__, 'filter_grid' ) );
		add_filter( 'wp_prepare_attachment_for_js', array( __CLASS__, 'add_grid_state' ), 10, 2 );
		add_filter( 'media_row_actions', array( __CLASS__, 'add_row_actions' ), 10, 2 );
		add_filter( 'bulk_actions-upload', array( __CLASS__, 'add_bulk_action' ) );
		add_filter( 'handle_bulk_actions-upload', array( __CLASS__, 'handle_bulk_action' ), 10, 3 );
		add_filter( 'removable_query_args', array( __CLASS__, 'removable_query_args' ) );
		add_action( 'admin_notices', array( __CLASS__, 'print_added' ) );
		add_action( 'admin_enqueue_scripts', array( __CLASS__, 'enqueue_on_screen' ) );
		add_action( 'wp_enqueue_media', array( __CLASS__, 'enqueue' ) );
	}

	/**
	 * Loads the script and the style on the screens that list or edit attachments outside the media modal.
	 *
	 * @param string $hook The current admin page.
	 */
	public static function enqueue_on_screen( string $hook ): void {
		$screen = get_current_screen();
		if ( 'upload.php' === $hook || ( 'post.php' === $hook && $screen && 'attachment' === $screen->post_type ) ) {
			self::enqueue();
		}
	}

	/**
	 * Loads the script and the style of the library.
	 */
	public static function enqueue(): void {
		if ( ! is_admin() || ! current_user_can( 'upload_files' ) ) {
			return;
		}
		$dependencies = array( 'wp-a11y', 'wp-api-fetch', 'wp-i18n' );
		if ( did_action( 'wp_enqueue_media' ) ) {
			$dependencies[] = 'media-views';
		}
		wp_enqueue_style( 'imgproc-local-library', IMGPROC_LOCAL_URL . 'assets/library.css', array(), IMGPROC_LOCAL_VERSION );
		wp_enqueue_script( 'imgproc-local-library', IMGPROC_LOCAL_URL . 'assets/library.js', $dependencies, IMGPROC_LOCAL_VERSION, true );
		wp_set_script_translations( 'imgproc-local-library', 'imgproc-local', IMGPROC_LOCAL_DIR . 'languages' );
		$data = array( 'filters' => Imgproc_Local_Images::filters() );
		wp_add_inline_script( 'imgproc-local-library', 'var imgprocLocalLibrary = ' . wp_json_encode( $data ) . ';', 'before' );
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
	 * Makes the list sortable by the bytes saved; the first click sorts the largest first.
	 *
	 * @param array $columns Query variables by the name of the column.
	 * @return array
	 */
	public static function sortable_columns( array $columns ): array {
		$columns['imgproc_local_saved'] = array( 'imgproc_local_saved', true );
		return $columns;
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
		$selected = self::requested_filter();
		echo '<label for="imgproc-local-filter" class="screen-reader-text">' . esc_html__( 'Filter by alt text', 'imgproc-local' ) . '</label>';
		printf( '<select class="attachment-filters" id="imgproc-local-filter" name="%s">', esc_attr( self::FILTER ) );
		echo '<option value="">' . esc_html__( 'All alt texts', 'imgproc-local' ) . '</option>';
		foreach ( Imgproc_Local_Images::filters() as $name => $label ) {
			printf( '<option value="%s"%s>%s</option>', esc_attr( $name ), selected( $selected, $name, false ), esc_html( $label ) );
		}
		echo '</select>';
	}

	/**
	 * Returns the filter of the current request, or an empty string.
	 *
	 * @return string A key of Imgproc_Local_Images::filters().
	 */
	private static function requested_filter(): string {
		// phpcs:disable WordPress.Security.NonceVerification.Recommended -- A filter of a list changes nothing.
		$source = isset( $_REQUEST['query'] ) && is_array( $_REQUEST['query'] ) ? $_REQUEST['query'] : $_GET; // phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- Sanitized in the next line.
		$name   = isset( $source[ self::FILTER ] ) && is_string( $source[ self::FILTER ] ) ? sanitize_key( wp_unslash( $source[ self::FILTER ] ) ) : '';
		// phpcs:enable
		return array_key_exists( $name, Imgproc_Local_Images::filters() ) ? $name : '';
	}

	/**
	 * Applies the filter and the order to the list view.
	 *
	 * @param WP_Query $query The query of the page.
	 */
	public static function filter_list( WP_Query $query ): void {
		if ( ! is_admin() || ! $query->is_main_query() || 'attachment' !== $query->get( 'post_type' ) ) {
			return;
		}
		$filter = self::requested_filter();
		if ( '' !== $filter ) {
			$args = Imgproc_Local_Images::query_args( $filter );
			$query->set( 'post_mime_type', $args['post_mime_type'] );
			$query->set( 'meta_query', $args['meta_query'] );
		}
		if ( 'imgproc_local_saved' === $query->get( 'orderby' ) ) {
			self::order_by_saved( $query );
		}
	}

	/**
	 * Orders a query by the bytes saved, without leaving out the attachments that were not processed.
	 *
	 * Order by the NOT EXISTS clause: WordPress restricts only that clause’s join to this meta key.
	 *
	 * @param WP_Query $query The query of the page.
	 */
	private static function order_by_saved( WP_Query $query ): void {
		$by_saved = array(
			'relation'            => 'OR',
			'imgproc_local_saved' => array(
				'key'     => Imgproc_Local_Queue::META_SAVED,
				'type'    => 'NUMERIC',
				'compare' => 'NOT EXISTS',
			),
			array(
				'key'     => Imgproc_Local_Queue::META_SAVED,
				'compare' => 'EXISTS',
			),
		);
		$query->set( 'meta_query', array_filter( array( (array) $query->get( 'meta_query' ), $by_saved ) ) );
	}

	/**
	 * Applies the filter to the grid and to the media modal.
	 *
	 * @param array $args Arguments of the WP_Query.
	 * @return array
	 */
	public static function filter_grid( array $args ): array {
		$filter = self::requested_filter();
		if ( '' === $filter ) {
			return $args;
		}
		$selection = Imgproc_Local_Images::query_args( $filter );
		if ( empty( $args['post_mime_type'] ) ) {
			$args['post_mime_type'] = $selection['post_mime_type'];
		}
		$args['meta_query'] = $selection['meta_query']; // phpcs:ignore WordPress.DB.SlowDBQuery.slow_db_query_meta_query -- The state of an attachment is in its meta.
		return $args;
	}

	/**
	 * Adds an image’s remark (its state or problem, see class-cells.php) to its data for the grid and the modal.
	 *
	 * @param array   $response   The attachment’s data for JavaScript.
	 * @param WP_Post $attachment The attachment.
	 * @return array
	 */
	public static function add_grid_state( array $response, WP_Post $attachment ): array {
		if ( wp_attachment_is_image( $attachment->ID ) ) {
			$response['imgprocLocal'] = Imgproc_Local_Cells::remark( $attachment->ID );
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
		if ( ! wp_attachment_is_image( $post->ID ) || ! current_user_can( 'edit_post', $post->ID ) || 'trash' === $post->post_status ) {
			return $actions;
		}
		$title = _draft_or_post_title( $post );

		$actions['imgproc_local_review'] = sprintf(
			'<a href="%s" class="imgproc-local-review" data-id="%d" aria-label="%s">%s</a>',
			esc_url( get_edit_post_link( $post->ID, 'raw' ) . '#imgproc-local-panel-' . $post->ID ),
			(int) $post->ID,
			/* translators: %s: Attachment title. */
			esc_attr( sprintf( __( 'Review the alt text of &#8220;%s&#8221;', 'imgproc-local' ), $title ) ),
			esc_html__( 'Alt text', 'imgproc-local' )
		);

		$actions[ self::ACTION ] = sprintf(
			'<a href="%s" aria-label="%s">%s</a>',
			esc_url( wp_nonce_url( admin_url( 'upload.php?action=' . self::ACTION . '&media[]=' . $post->ID ), 'bulk-media' ) ),
			/* translators: %s: Attachment title. */
			esc_attr( sprintf( __( 'Process &#8220;%s&#8221; with Imgproc Local', 'imgproc-local' ), $title ) ),
			esc_html_x( 'Process', 'verb', 'imgproc-local' )
		);
		return $actions;
	}

	/**
	 * Adds the bulk action.
	 *
	 * @param string[] $actions Labels by the name of the action.
	 * @return string[]
	 */
	public static function add_bulk_action( array $actions ): array {
		$actions[ self::ACTION ] = __( 'Process with Imgproc Local', 'imgproc-local' );
		return $actions;
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
		if ( self::ACTION !== $action ) {
			return $location;
		}
		$ids = Imgproc_Local_Images::editable( (array) $ids );
		return add_query_arg( 'imgproc_local_added', Imgproc_Local_Queue::add_many( $ids ), $location );
	}

	/**
	 * Lets WordPress remove the number of added images from the URL.
	 *
	 * @param string[] $names Query variables.
	 * @return string[]
	 */
	public static function removable_query_args( array $names ): array {
		$names[] = 'imgproc_local_added';
		return $names;
	}

	/**
	 * Says how many images a bulk action added to the queue.
	 */
	public static function print_added(): void {
		$screen = get_current_screen();
		if ( ! $screen || 'upload' !== $screen->id || ! isset( $_GET['imgproc_local_added'] ) ) { // phpcs:ignore WordPress.Security.NonceVerification.Recommended -- Only a number is shown.
			return;
		}
		$count = absint( $_GET['imgproc_local_added'] ); // phpcs:ignore WordPress.Security.NonceVerification.Recommended -- Only a number is shown.
		/* translators: %s: Number of images. */
		$text = sprintf( _n( '%s image was added to the queue of Imgproc Local.', '%s images were added to the queue of Imgproc Local.', $count, 'imgproc-local' ), number_format_i18n( $count ) );
		printf( '<div class="notice notice-success is-dismissible"><p>%s</p></div>', esc_html( $text ) );
	}
}
