<?php
/**
 * The filters of the media library, the bulk page and WP-CLI. Here, a filter is a selection of images, not a WordPress hook.
 *
 * @package Imgproc_Local
 */

defined( 'ABSPATH' ) || exit;

/**
 * The filters, which select image attachments by the state of their alt text or of their processing.
 */
final class Imgproc_Local_Images {

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
	 * Returns the arguments of a WP_Query for the images of a filter.
	 *
	 * @param string $filter A key of filters(); any other name, such as `all`, lists all images.
	 * @return array<string, mixed>
	 */
	public static function query_args( string $filter ): array {
		$meta = self::meta_query( $filter );
		$args = array(
			'post_type'      => 'attachment',
			'post_status'    => array( 'inherit', 'private' ),
			'post_mime_type' => 'image',
		);
		if ( $meta ) {
			$args['meta_query'] = $meta; // phpcs:ignore WordPress.DB.SlowDBQuery.slow_db_query_meta_query -- The state of an attachment is in its meta.
		}
		return $args;
	}

	/**
	 * Returns the meta query of a filter, or an empty array if it lists all images.
	 *
	 * @param string $filter A key of filters(); any other name lists all images.
	 * @return array<mixed>
	 */
	private static function meta_query( string $filter ): array {
		$no_alt = array(
			'relation' => 'OR',
			array(
				'key'     => '_wp_attachment_image_alt',
				'compare' => 'NOT EXISTS',
			),
			array(
				'key'   => '_wp_attachment_image_alt',
				'value' => '',
			),
		);
		switch ( $filter ) {
			case 'needs_text': // The service has no description of the image, and nobody has written an alt text.
				return array(
					'relation' => 'AND',
					array(
						'key'   => Imgproc_Local_Queue::META_NEEDS_TEXT,
						'value' => '1',
					),
					$no_alt,
				);
			case 'no_alt':
				return array( $no_alt );
			case 'new':
				return array(
					array(
						'key'     => Imgproc_Local_Queue::META_STATE,
						'compare' => 'NOT EXISTS',
					),
				);
			case 'waiting':
				return self::in_state( array( 'waiting', Imgproc_Local_Queue::SENDING, 'sent' ) );
			case 'failed':
			case 'skipped':
				return self::in_state( array( $filter ) );
			default:
				return array();
		}
	}

	/**
	 * Returns the meta query of the images that are in one of the given states.
	 *
	 * @param string[] $states Values of Imgproc_Local_Queue::META_STATE.
	 * @return array<mixed>
	 */
	private static function in_state( array $states ): array {
		return array(
			array(
				'key'     => Imgproc_Local_Queue::META_STATE,
				'value'   => $states,
				'compare' => 'IN',
			),
		);
	}

	/**
	 * Returns the number of images that a filter lists.
	 *
	 * @param string $filter A key of filters(), or `all`.
	 * @return int
	 */
	public static function count( string $filter ): int {
		$query = new WP_Query(
			self::query_args( $filter ) + array(
				'fields'         => 'ids',
				'posts_per_page' => 1,
				'orderby'        => 'none',
			)
		);
		return (int) $query->found_posts;
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
		$query = new WP_Query(
			self::query_args( $filter ) + array(
				'fields'           => 'ids',
				'posts_per_page'   => $limit,
				'orderby'          => 'ID',
				'order'            => 'ASC',
				'no_found_rows'    => true,
				'suppress_filters' => false,
			)
		);
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
		return array_values(
			array_filter(
				$ids,
				static function ( int $id ): bool {
					return wp_attachment_is_image( $id ) && current_user_can( 'edit_post', $id );
				}
			)
		);
	}
}
