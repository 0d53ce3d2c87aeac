/**
 * The media library: the panel of an image, waiting images that refresh on their own, and the grid's filter, badges and
 * bulk button.
 */
( function ( wp, filters ) {
	'use strict';

	const { apiFetch, a11y, i18n, media } = wp;
	const { __, _n, sprintf } = i18n;
	const POLL_MS = 3000;
	const MAX_POLL_MS = 30000;
	const IDS_PER_REQUEST = 100; // The server accepts no more.

	const request = ( path, data ) => apiFetch( { path: '/imgproc-local/v1' + path, method: data ? 'POST' : 'GET', data } );
	const hasModels = media && media.model;
	let timer = null;

	/* What is shown of an image. */

	function fromHtml( html ) {
		const template = document.createElement( 'template' );
		template.innerHTML = html; // Escaped by the server.
		return template.content.firstElementChild;
	}

	/** Writes an alt text into the fields of WordPress that show it. */
	function showAlt( panel, id, alt ) {
		const postId = document.getElementById( 'post_ID' );
		const details = panel.closest( '.media-sidebar, .media-frame-content' );
		const fields = [
			postId && Number( postId.value ) === id && document.getElementById( 'attachment_alt' ), // The screen that edits the attachment.
			details && details.querySelector( '[data-setting="alt"] textarea' ), // The modal does not update this field.
		];
		fields.filter( Boolean ).forEach( ( field ) => {
			field.value = alt;
		} );
	}

	/**
	 * Shows what the server says of an image, wherever the page shows it. A panel is replaced if it waited or if one of its
	 * buttons was used (`changed`), but not while somebody reviews a text in it.
	 */
	async function show( id, image, changed ) {
		document.querySelectorAll( `.imgproc-local-cell[data-id="${ id }"]` ).forEach( ( cell ) => {
			cell.innerHTML = image[ cell.dataset.field ]; // Escaped by the server.
			cell.toggleAttribute( 'data-pending', image.pending );
		} );
		document.querySelectorAll( `.imgproc-local-panel[data-id="${ id }"]` ).forEach( ( panel ) => {
			if ( panel === changed || panel.hasAttribute( 'data-pending' ) ) {
				const fresh = fromHtml( image.panel );
				const hadFocus = panel === changed || panel.contains( document.activeElement );
				panel.replaceWith( fresh );
				showAlt( fresh, id, image.alt );
				if ( hadFocus ) {
					fresh.focus();
				}
				if ( ! image.pending && panel !== changed ) {
					a11y.speak( image.remark.label || __( 'The image was processed.', 'imgproc-local' ) );
				}
			}
		} );
		if ( hasModels && media.model.Attachments.all.get( id ) ) {
			const model = media.attachment( id );
			const waited = 'waiting' === ( model.get( 'imgprocLocal' ) || {} ).kind;
			model.set( { alt: image.alt, imgprocLocal: image.remark } );
			if ( waited && ! image.pending ) {
				await model.fetch(); // Its panel has changed, too.
			}
		}
	}

	/** Reads the images that wait on this page again, every few seconds until none waits. */
	function poll( delay = POLL_MS ) {
		window.clearTimeout( timer );
		timer = window.setTimeout( async () => {
			const models = hasModels ? media.model.Attachments.all.filter( ( model ) => 'waiting' === ( model.get( 'imgprocLocal' ) || {} ).kind ) : [];
			const pending = Array.from( document.querySelectorAll( '.imgproc-local-panel[data-pending], .imgproc-local-cell[data-pending]' ), ( element ) => Number( element.dataset.id ) );
			const ids = [ ...new Set( pending.concat( models.map( ( model ) => model.id ) ) ) ].slice( 0, IDS_PER_REQUEST );
			if ( ! ids.length ) {
				return;
			}
			try {
				const images = await request( '/images?' + ids.map( ( id ) => 'ids[]=' + id ).join( '&' ) );
				for ( const [ id, image ] of Object.entries( images ) ) {
					await show( Number( id ), image );
				}
				poll( Math.min( MAX_POLL_MS, 1.1 * delay ) );
			} catch ( error ) {
				poll( MAX_POLL_MS ); // The site did not answer: ask again later.
			}
		}, delay );
	}

	/* The panel of an image. */

	function setBusy( panel, busy ) {
		panel.setAttribute( 'aria-busy', busy );
		panel.querySelectorAll( 'button, textarea' ).forEach( ( control ) => {
			control.disabled = busy;
		} );
	}

	function say( panel, text ) {
		panel.querySelectorAll( '.imgproc-local-message' ).forEach( ( line ) => line.remove() );
		const line = document.createElement( 'p' );
		line.className = 'imgproc-local-message notice notice-error inline';
		line.textContent = text;
		panel.append( line );
		a11y.speak( text, 'assertive' );
	}

	/** Does what a button says. `replace`: also replaces texts that a person has written. */
	async function act( button, replace = false ) {
		const panel = button.closest( '.imgproc-local-panel' );
		const action = button.dataset.imgprocAction;
		const proposal = button.closest( '.imgproc-local-text' );
		const data = { action, replace };
		if ( proposal ) {
			data.language = proposal.dataset.language;
			data.alt = proposal.querySelector( 'textarea' ).value;
		}
		const messages = {
			accept: __( 'The alt text was saved.', 'imgproc-local' ),
			regenerate: __( 'The text is being written again.', 'imgproc-local' ),
			process: __( 'The image was added to the queue.', 'imgproc-local' ),
			decorative: __( 'The image is decorative now.', 'imgproc-local' ),
			informative: __( 'The image is no longer decorative.', 'imgproc-local' ),
		};
		setBusy( panel, true );
		try {
			const images = await request( '/images/' + panel.dataset.id, data );
			await show( Number( panel.dataset.id ), images[ panel.dataset.id ], panel );
			a11y.speak( messages[ action ] );
			poll();
		} catch ( error ) {
			setBusy( panel, false );
			button.focus();
			if ( 'text_of_person' !== error.code ) {
				say( panel, error.message );
			} else if ( window.confirm( error.message ) ) { // eslint-disable-line no-alert -- As WordPress asks before it deletes.
				await act( button, true );
			}
		}
	}

	/** Opens the panel of an image below its alt text in the list, or closes it. */
	async function toggleReview( link ) {
		const id = link.dataset.id;
		const cell = document.querySelector( `.imgproc-local-cell[data-field="cell"][data-id="${ id }"]` );
		const open = cell.parentElement.querySelector( '.imgproc-local-panel' );
		link.setAttribute( 'aria-expanded', ! open );
		if ( open ) {
			open.remove();
			return;
		}
		try {
			const images = await request( '/images?ids[]=' + id );
			const panel = fromHtml( images[ id ].panel );
			cell.after( panel );
			panel.focus();
			poll();
		} catch ( error ) {
			window.location.assign( link.href );
		}
	}

	document.addEventListener( 'click', ( event ) => {
		const button = event.target.closest( '.imgproc-local-panel button' );
		const link = event.target.closest( 'a.imgproc_local_review' );
		if ( button || ( link && document.querySelector( '.imgproc-local-cell' ) ) ) {
			event.preventDefault();
			button ? act( button ) : toggleReview( link );
		}
	} );

	// The media modal saves and redraws its fields at every change; a text under review must not be saved by that.
	document.addEventListener( 'change', ( event ) => {
		if ( event.target.closest( '.imgproc-local-panel' ) ) {
			event.stopPropagation();
		}
	}, true );

	poll();

	/* The grid and the modal. */

	/** Has a view call a function after one of its methods. */
	function after( view, method, call ) {
		const original = view.prototype[ method ];
		view.prototype[ method ] = function () {
			const result = original.apply( this, arguments );
			call( this );
			return result;
		};
	}

	function extendGrid( { view } ) {
		after( view.Attachment, 'render', ( { $el, model } ) => {
			const remark = model.get( 'imgprocLocal' );
			if ( remark && remark.kind && $el.is( 'li.attachment' ) ) {
				const badge = document.createElement( 'span' );
				badge.className = 'imgproc-local-badge imgproc-local-' + remark.kind;
				badge.textContent = remark.label;
				$el.find( '.attachment-preview' ).append( badge );
				$el.attr( 'aria-label', model.get( 'title' ) + ' – ' + remark.label );
				poll();
			}
		} );
		after( view.AttachmentCompat, 'render', () => poll() );

		const Filter = view.AttachmentFilters.extend( {
			id: 'imgproc-local-grid-filter',
			createFilters() {
				this.filters = { all: { text: __( 'All alt texts', 'imgproc-local' ), props: { imgproc_local: null }, priority: 10 } };
				Object.entries( filters ).forEach( ( [ name, text ] ) => {
					this.filters[ name ] = { text, props: { imgproc_local: name } };
				} );
			},
		} );
		after( view.AttachmentsBrowser, 'createToolbar', ( { toolbar, controller, collection } ) => {
			toolbar.set( 'imgprocLocalFilterLabel', new view.Label( {
				value: __( 'Filter by alt text', 'imgproc-local' ),
				attributes: { for: 'imgproc-local-grid-filter' },
				priority: -73,
			} ).render() );
			toolbar.set( 'imgprocLocalFilter', new Filter( { controller, model: collection.props, priority: -73 } ).render() );
			if ( controller.isModeActive( 'grid' ) ) {
				const ProcessSelected = view.DeleteSelectedButton.extend( {
					filterChange() {}, // Else the button would change its label with the trash.
				} );
				toolbar.set( 'imgprocLocalProcess', new ProcessSelected( {
					style: 'secondary',
					disabled: true,
					text: __( 'Process with Imgproc Local', 'imgproc-local' ),
					controller,
					priority: -60,
					click: () => processSelection( controller ),
				} ).render() );
			}
		} );
	}

	/** Adds the images selected in the grid to the queue, IDS_PER_REQUEST at a time. */
	async function processSelection( controller ) {
		const models = controller.state().get( 'selection' ).models.slice();
		let added = 0;
		try {
			while ( models.length ) {
				const page = models.splice( 0, IDS_PER_REQUEST );
				const answer = await request( '/queue', { ids: page.map( ( model ) => model.id ) } );
				added += answer.added;
				page.forEach( ( model ) => model.set( 'imgprocLocal', { kind: 'waiting', label: __( 'Waiting', 'imgproc-local' ) } ) );
			}
			/* translators: %s: Number of images. */
			a11y.speak( sprintf( _n( '%s image was added.', '%s images were added.', added, 'imgproc-local' ), added ) );
			controller.trigger( 'selection:action:done' );
			poll();
		} catch ( error ) {
			window.alert( error.message ); // eslint-disable-line no-alert -- The grid has no place for messages.
		}
	}

	if ( media && media.view && media.view.AttachmentsBrowser ) {
		extendGrid( media );
	}
}( window.wp, window.imgprocLocal.library ) );
