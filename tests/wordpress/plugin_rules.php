<?php
// Checks PHP files of a plugin by rules of WordPress' coding standards and of Plugin Check that need no network: escaped
// output, sanitized input, nonces, prepared queries, translatable texts and prefixes.
//
//     php plugin_rules.php TEXT_DOMAIN FILE...
//
// Prints "FILE:LINE: what is wrong" for each finding, and exits with status 1 if there is one. Nothing is reported for a
// line that has the comment "// phpcs:ignore RULE -- REASON", or follows it; without a reason, the comment is reported
// instead. The rules read tokens, not types: they find what a reviewer looks at first, and are no substitute for the
// WordPress standard of PHP_CodeSniffer.

const ESCAPING = array(
	'esc_html', 'esc_attr', 'esc_url', 'esc_js', 'esc_textarea', 'esc_xml', 'esc_html__', 'esc_html_x', 'esc_attr__',
	'esc_attr_x', 'wp_kses', 'wp_kses_post', 'wp_kses_data', 'absint', 'intval', 'floatval', 'count', 'checked', 'selected',
	'disabled', 'wp_nonce_field', 'get_submit_button', 'wp_get_attachment_image', 'esc_html_e', 'esc_attr_e',
);
const FORMATTING = array( 'sprintf', 'vsprintf', 'implode', 'wp_sprintf', 'printf', 'vprintf' );
/** Functions that translate: positions of the texts, and of the text domain. */
const TRANSLATING = array(
	'__'          => array( array( 0 ), 1 ),
	'_e'          => array( array( 0 ), 1 ),
	'esc_html__'  => array( array( 0 ), 1 ),
	'esc_html_e'  => array( array( 0 ), 1 ),
	'esc_attr__'  => array( array( 0 ), 1 ),
	'esc_attr_e'  => array( array( 0 ), 1 ),
	'_x'          => array( array( 0, 1 ), 2 ),
	'_ex'         => array( array( 0, 1 ), 2 ),
	'esc_html_x'  => array( array( 0, 1 ), 2 ),
	'esc_attr_x'  => array( array( 0, 1 ), 2 ),
	'_n'          => array( array( 0, 1 ), 3 ),
	'_nx'         => array( array( 0, 1, 3 ), 4 ),
	'_n_noop'     => array( array( 0, 1 ), 2 ),
	'_nx_noop'    => array( array( 0, 1, 2 ), 3 ),
);
const SANITIZING     = '/^(sanitize_\w+|absint|intval|floatval|boolval|esc_url_raw|wp_verify_nonce|check_\w*referer|wp_kses\w*)$/';
const NONCE_CHECKS   = array( 'check_admin_referer', 'check_ajax_referer', 'wp_verify_nonce' );
const INPUT          = array( '$_GET', '$_POST', '$_REQUEST', '$_COOKIE', '$_FILES', '$_SERVER' );
const PREFIX         = '/^_?imgproc_local/i';

/** One file: its tokens without white space and comments, and the findings of the rules. */
class Checked_File {
	/** Tokens as array( id or character, text, line ). */
	public array $tokens = array();
	/** Comments by line. */
	public array $comments = array();
	public array $findings = array();

	public function __construct( string $code ) {
		$line = 1;
		foreach ( token_get_all( $code ) as $token ) {
			$token = is_array( $token ) ? $token : array( $token, $token, $line );
			$line  = $token[2] + substr_count( $token[1], "\n" );
			if ( in_array( $token[0], array( T_COMMENT, T_DOC_COMMENT ), true ) ) {
				for ( $at = $token[2]; $at <= $line; $at++ ) {
					$this->comments[ $at ] = ( $this->comments[ $at ] ?? '' ) . $token[1];
				}
			} elseif ( T_WHITESPACE !== $token[0] ) {
				$this->tokens[] = $token;
			}
		}
		$this->tokens[] = array( ';', ';', $line );
	}

	public function report( int $index, string $what ): void {
		$line    = $this->tokens[ $index ][2];
		$comment = $this->comments[ $line ] ?? '';
		if ( false === strpos( $comment, 'phpcs:ignore' ) ) {
			$comment = $this->comments[ $line - 1 ] ?? '';
		}
		if ( false === strpos( $comment, 'phpcs:ignore' ) ) {
			$this->findings[] = array( $line, $what );
		} elseif ( false === strpos( $comment, ' -- ' ) ) {
			$this->findings[] = array( $line, 'phpcs:ignore gives no reason after " -- "' );
		}
	}

	public function is_call( int $index ): bool {
		$before = $this->tokens[ $index - 1 ][0] ?? null;
		return T_STRING === $this->tokens[ $index ][0] && '(' === $this->tokens[ $index + 1 ][0]
			&& ! in_array( $before, array( T_OBJECT_OPERATOR, T_DOUBLE_COLON, T_FUNCTION, T_NEW ), true );
	}

	/** The index of the bracket that closes the one at $open. */
	public function closing( int $open ): int {
		$depth = 0;
		for ( $i = $open; isset( $this->tokens[ $i ] ); $i++ ) {
			$depth += in_array( $this->tokens[ $i ][0], array( '(', '[', '{', T_CURLY_OPEN ), true ) ? 1 : 0;
			$depth -= in_array( $this->tokens[ $i ][0], array( ')', ']', '}' ), true ) ? 1 : 0;
			if ( 0 === $depth ) {
				return $i;
			}
		}
		return count( $this->tokens ) - 1;
	}

	/** The arguments of the call at $index, each as array( first token, token after the last ). */
	public function arguments( int $index ): array {
		$end   = $this->closing( $index + 1 );
		$found = array();
		$from  = $index + 2;
		for ( $i = $from; $i <= $end; $i++ ) {
			if ( ',' === $this->tokens[ $i ][0] || $i === $end ) {
				if ( $i > $from ) {
					$found[] = array( $from, $i );
				}
				$from = $i + 1;
			} elseif ( in_array( $this->tokens[ $i ][0], array( '(', '[', '{' ), true ) ) {
				$i = $this->closing( $i );
			}
		}
		return $found;
	}

	/** The range of the statement around $index. */
	public function statement( int $index ): array {
		$ends = array( ';', '{', '}', T_CLOSE_TAG, T_OPEN_TAG );
		for ( $from = $index; $from > 0 && ! in_array( $this->tokens[ $from - 1 ][0], $ends, true ); $from-- ); // phpcs:ignore -- The loop has no body.
		for ( $to = $index; isset( $this->tokens[ $to + 1 ] ) && ! in_array( $this->tokens[ $to ][0], $ends, true ); $to++ ); // phpcs:ignore -- The loop has no body.
		return array( $from, $to );
	}

	/** The texts of the tokens in a range. */
	public function texts( array $range ): array {
		return array_column( array_slice( $this->tokens, $range[0], $range[1] - $range[0] ), 1 );
	}

	/** The innermost named function around $index, as a range; the whole file outside of functions. */
	public function enclosing( int $index ): array {
		$found = array( 0, count( $this->tokens ) );
		foreach ( $this->tokens as $i => $token ) {
			if ( $i < $index && T_FUNCTION === $token[0] && T_STRING === ( $this->tokens[ $i + 1 ][0] ?? null ) ) {
				$open = $i;
				while ( ! in_array( $this->tokens[ $open ][0], array( '{', ';' ), true ) ) {
					++$open;
				}
				$close = '{' === $this->tokens[ $open ][0] ? $this->closing( $open ) : $open;
				if ( $open < $index && $index < $close ) {
					$found = array( $open, $close );
				}
			}
		}
		return $found;
	}
}

/** Reports the first part of an output that is not escaped. A variable is allowed before the "?" of a condition. */
function check_output( Checked_File $file, int $from, int $to ): void {
	for ( $i = $from; $i < $to; $i++ ) {
		list( $id, $text ) = $file->tokens[ $i ];
		if ( in_array( $id, array( T_INT_CAST, T_DOUBLE_CAST, T_BOOL_CAST ), true ) ) {
			++$i;
			while ( isset( $file->tokens[ $i + 1 ] ) && in_array( $file->tokens[ $i + 1 ][0], array( '[', '(', T_OBJECT_OPERATOR, T_DOUBLE_COLON ), true ) ) {
				$i = in_array( $file->tokens[ $i + 1 ][0], array( '[', '(' ), true ) ? $file->closing( $i + 1 ) : $i + 2;
			}
		} elseif ( $file->is_call( $i ) && in_array( $text, ESCAPING, true ) ) {
			$i = $file->closing( $i + 1 );
		} elseif ( $file->is_call( $i ) && in_array( $text, FORMATTING, true ) ) {
			continue;
		} elseif ( T_VARIABLE === $id || ( T_STRING === $id && '(' === $file->tokens[ $i + 1 ][0] ) || T_ISSET === $id || T_EMPTY === $id ) {
			for ( $next = $i; $next < $to && ! in_array( $file->tokens[ $next ][0], array( '?', '.', ',', ':' ), true ); $next++ ) {
				if ( in_array( $file->tokens[ $next ][0], array( '(', '[' ), true ) ) {
					$next = $file->closing( $next );
				}
			}
			if ( $next >= $to || '?' !== $file->tokens[ $next ][0] ) {
				$file->report( $i, "output of $text is not escaped" );
				return;
			}
			$i = $next;
		}
	}
}

function check_translation( Checked_File $file, int $index, string $domain ): void {
	list( $positions, $last ) = TRANSLATING[ $file->tokens[ $index ][1] ];
	$arguments                = $file->arguments( $index );
	if ( array( "'$domain'" ) !== ( isset( $arguments[ $last ] ) ? $file->texts( $arguments[ $last ] ) : null ) ) {
		$file->report( $index, "the text domain is not '$domain'" );
	}
	foreach ( $positions as $position ) {
		$range = $arguments[ $position ] ?? null;
		if ( null === $range || 1 !== $range[1] - $range[0] || T_CONSTANT_ENCAPSED_STRING !== $file->tokens[ $range[0] ][0] ) {
			$file->report( $index, 'the text to translate is not one string' );
			continue;
		}
		$count = preg_match_all( '/%(\d+\$)?[sdf]/', $file->tokens[ $range[0] ][1], $found );
		if ( $count > 1 && in_array( '', $found[1], true ) ) {
			$file->report( $index, 'the placeholders are not all numbered, so a translator can\'t change their order' );
		}
		$line   = $file->tokens[ $index ][2];
		$before = implode( '', array_map( fn( $at ) => $file->comments[ $at ] ?? '', range( max( 1, $line - 2 ), $line ) ) );
		if ( $count > 0 && false === strpos( $before, 'translators:' ) ) {
			$file->report( $index, 'no comment "translators:" explains the placeholders' );
		}
	}
}

function check_input( Checked_File $file, int $index ): void {
	$name           = $file->tokens[ $index ][1];
	$statement      = $file->texts( $file->statement( $index ) );
	$before         = $file->tokens[ $index - 2 ][0] ?? null;
	$is_only_tested = in_array( $before, array( T_ISSET, T_EMPTY ), true ) || in_array( $file->tokens[ $index - 1 ][0], array( T_ISSET, T_EMPTY ), true );
	$cast           = array_intersect( array_map( 'strtolower', $statement ), array( '(int)', '(bool)', 'absint', 'intval' ) );
	if ( ! $is_only_tested && ! $cast && ! preg_grep( SANITIZING, $statement ) ) {
		$file->report( $index, "$name is not sanitized" );
	} elseif ( ! $is_only_tested && ! $cast && '$_FILES' !== $name && ! preg_grep( '/^wp_unslash$|^check_|^wp_verify_nonce$/', $statement ) ) {
		$file->report( $index, "$name is not unslashed" );
	}
	if ( '$_SERVER' !== $name && ! array_intersect( $file->texts( $file->enclosing( $index ) ), NONCE_CHECKS ) ) {
		$file->report( $index, "$name is read without a check of a nonce" );
	}
}

function check_query( Checked_File $file, int $index ): void {
	$arguments = $file->arguments( $index );
	$texts     = $arguments ? $file->texts( $arguments[0] ) : array();
	$variables = array_diff( preg_grep( '/^\$/', $texts ), array( '$wpdb' ) );
	if ( $variables && ! in_array( 'prepare', $texts, true ) ) {
		$file->report( $index, 'the query has ' . implode( ', ', $variables ) . ' and is not prepared' );
	}
}

function check_name( Checked_File $file, int $index, string $kind, string $name ): void {
	if ( ! preg_match( PREFIX, trim( $name, '\'"' ) ) ) {
		$file->report( $index, "the $kind $name does not begin with the prefix of the plugin" );
	}
}

function check_file( string $path, string $domain ): array {
	$file  = new Checked_File( file_get_contents( $path ) );
	$texts = array_column( $file->tokens, 1 );
	$depth = 0;
	if ( ! preg_match( "/defined\('(ABSPATH|WP_UNINSTALL_PLUGIN)'\)(\|\||\)\{)(exit|die|return)/", implode( '', array_slice( $texts, 1, 60 ) ) ) ) {
		$file->report( 0, 'the file can be called directly: it does not begin with a check of ABSPATH' );
	}
	foreach ( $file->tokens as $i => list( $id, $text ) ) {
		$depth += in_array( $id, array( '{', T_CURLY_OPEN ), true ) ? 1 : ( '}' === $id ? -1 : 0 );
		if ( in_array( $id, array( T_ECHO, T_PRINT, T_OPEN_TAG_WITH_ECHO ), true ) ) {
			check_output( $file, $i + 1, $file->statement( $i )[1] );
		} elseif ( T_VARIABLE === $id && in_array( $text, INPUT, true ) ) {
			check_input( $file, $i );
		} elseif ( in_array( $id, array( T_IS_EQUAL, T_IS_NOT_EQUAL ), true ) ) {
			$file->report( $i, 'the comparison is loose' );
		} elseif ( 0 === $depth && in_array( $id, array( T_FUNCTION, T_CLASS ), true ) && T_STRING === $file->tokens[ $i + 1 ][0] ) {
			check_name( $file, $i, T_CLASS === $id ? 'class' : 'function', $file->tokens[ $i + 1 ][1] );
		} elseif ( T_STRING === $id && preg_match( '/^(query|get_results|get_row|get_col|get_var)$/', $text ) && '$wpdb' === ( $file->tokens[ $i - 2 ][1] ?? '' ) ) {
			check_query( $file, $i );
		}
		if ( ! $file->is_call( $i ) ) {
			continue;
		}
		$arguments = $file->arguments( $i );
		$first     = $arguments ? implode( '', $file->texts( $arguments[0] ) ) : '';
		if ( isset( TRANSLATING[ $text ] ) ) {
			check_translation( $file, $i, $domain );
		}
		if ( in_array( $text, array( 'printf', 'vprintf', 'wp_die', '_e', '_ex' ), true ) ) {
			'_e' === $text || '_ex' === $text ? $file->report( $i, "$text does not escape" ) : check_output( $file, $i + 2, $file->closing( $i + 1 ) );
		}
		if ( 'define' === $text ) {
			check_name( $file, $i, 'constant', $first );
		}
		if ( in_array( $text, array( 'do_action', 'apply_filters' ), true ) && '\'' === $first[0] ) {
			$is_core = preg_match( '/^\'(the_content|the_title|https_local_ssl_verify|wp_\w+|big_image_size_threshold|cron_\w+)\'$/', $first );
			$is_core || check_name( $file, $i, 'hook', $first );
		}
	}
	return $file->findings;
}

list( , $domain ) = $argv;
$status           = 0;
foreach ( array_slice( $argv, 2 ) as $path ) {
	foreach ( check_file( $path, $domain ) as list( $line, $what ) ) {
		echo "$path:$line: $what\n";
		$status = 1;
	}
}
exit( $status );
