<?php
/**
 * The list of images that failed, on the page Media → Imgproc Local.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * Makes the HTML of one page of the list.
 */
final class Imgproc_Local_Failures {

	/**
	 * Images on one page of the list.
	 */
	const PAGE_SIZE = 20;

	/**
	 * Returns a page of the images that failed, with the reasons.
	 *
	 * @param int $page From 1.
	 * @return string Escaped HTML.
	 */
	public static function html( int $page ): string {
		$query = new WP_Query(
			Imgproc_Local_Images::query_args( 'failed' ) + array(
				'posts_per_page' => self::PAGE_SIZE,
				'paged'          => $page,
				'orderby'        => 'ID',
				'order'          => 'DESC',
			)
		);
		if ( ! $query->posts ) {
			return '<p>' . esc_html__( 'None.', 'imgproc-local' ) . '</p>';
		}
		$rows = '';
		foreach ( $query->posts as $post ) {
			$rows .= self::row( $post );
		}
		$head = sprintf(
			'<thead><tr><th scope="col">%s</th><th scope="col">%s</th><th scope="col"><span class="screen-reader-text">%s</span></th></tr></thead>',
			esc_html__( 'Image', 'imgproc-local' ),
			esc_html__( 'Reason', 'imgproc-local' ),
			esc_html__( 'Actions', 'imgproc-local' )
		);
		return '<table class="widefat striped">' . $head . '<tbody>' . $rows . '</tbody></table>' . self::pagination( $page, (int) $query->max_num_pages );
	}

	/**
	 * Returns the row of a failed image.
	 *
	 * @param WP_Post $post The attachment.
	 * @return string Escaped HTML.
	 */
	private static function row( WP_Post $post ): string {
		$name   = wp_basename( (string) get_attached_file( $post->ID ) );
		$title  = '' === $post->post_title ? $name : $post->post_title;
		$state  = Imgproc_Local_Queue::state( $post->ID );
		$button = '';
		if ( current_user_can( 'edit_post', $post->ID ) ) {
			$title_html = sprintf( '<a href="%s">%s</a>', esc_url( get_edit_post_link( $post->ID, 'raw' ) ), esc_html( $title ) );
			$button     = sprintf(
				'<button type="button" class="button" data-imgproc-action="retry" data-id="%d" aria-label="%s">%s</button>',
				(int) $post->ID,
				/* translators: %s: Attachment title. */
				esc_attr( sprintf( __( 'Try again: %s', 'imgproc-local' ), $title ) ),
				esc_html__( 'Try again', 'imgproc-local' )
			);
		} else {
			$title_html = esc_html( $title );
		}
		return sprintf( '<tr><td>%s<br><span class="description">%s</span></td><td>%s</td><td>%s</td></tr>', $title_html, esc_html( $name === $title ? '' : $name ), esc_html( $state['error'] ), $button );
	}

	/**
	 * Returns the buttons for the previous and the next page, and between them which page this is.
	 *
	 * @param int $page  From 1.
	 * @param int $pages Number of pages.
	 * @return string Escaped HTML, empty if there is one page.
	 */
	private static function pagination( int $page, int $pages ): string {
		if ( $pages < 2 ) {
			return '';
		}
		$button = static function ( int $target, string $label, bool $enabled ): string {
			return sprintf( '<button type="button" class="button" data-imgproc-action="page" data-page="%d"%s>%s</button> ', $target, $enabled ? '' : ' disabled', esc_html( $label ) );
		};
		return '<p>' . $button( $page - 1, __( 'Previous page', 'imgproc-local' ), $page > 1 )
			/* translators: 1: Number of this page. 2: Number of pages. */
			. esc_html( sprintf( __( 'Page %1$s of %2$s', 'imgproc-local' ), number_format_i18n( $page ), number_format_i18n( $pages ) ) ) . ' '
			. $button( $page + 1, __( 'Next page', 'imgproc-local' ), $page < $pages ) . '</p>';
	}
}
