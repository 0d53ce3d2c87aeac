/**
 * The media library: the panel of an image, waiting rows that refresh on their own, and the grid's filter, badges and
 * bulk button.
 */
( function ( wp, settings ) {
	'use strict';

	const { __, _n, sprintf } = wp.i18n;
	const POLL_MS = 3000;
	const MAX_POLL_MS = 30000;
	const IDS_PER_REQUEST = 100; // The server accepts no more.

	let gridTimer = null;

	function request( path, data ) {
		return wp.apiFetch( {
			path: '/imgproc-local/v1' + path,
			method: data ? 'POST' : 'GET',
			data,
		} );
	}

	/* The panel of an image. */

	function fromHtml( html ) {
		const template = document.createElement( 'template' );
		template.innerHTML = html; // Escaped by the server.
		return template.content.firstElementChild;
	}

	function say( panel, text ) {
		let line = panel.querySelector( '.imgproc-local-message' );
		if ( ! line ) {
			line = document.createElement( 'p' );
			line.className = 'imgproc-local-message';
			panel.append( line );
		}
		line.textContent = text;
		wp.a11y.speak( text, 'assertive' );
	}

	/** Writes an accepted alt text into the fields of WordPress that show it. */
	function showAlt( panel, alt ) {
		const id = Number( panel.dataset.id );
		const field = document.getElementById( 'attachment_alt' ); // The screen that edits the attachment.
		const postId = document.getElementById( 'post_ID' );
		if ( field && postId && Number( postId.value ) === id ) {
			field.value = alt;
		}
		const details = panel.closest( '.media-sidebar, .media-frame-content' );
		const detail = details && details.querySelector( '[data-setting="alt"] textarea' );
		if ( detail ) {
			detail.value = alt; // The modal does not update this field.
		}
		if ( wp.media && wp.media.model ) {
			wp.media.attachment( id ).set( 'alt', alt );
		}
	}

	/** Replaces a panel with the one that the server sent, and polls while the image waits. */
	function showAnswer( panel, answer, delay = POLL_MS ) {
		const fresh = fromHtml( answer.html );
		const hadFocus = panel.contains( document.activeElement );
		panel.replaceWith( fresh );
		if ( hadFocus ) {
			fresh.focus();
		}
		showAlt( fresh, answer.alt );
		showRemark( Number( fresh.dataset.id ), answer.remark );
		if ( answer.pending ) {
			pollPanel( fresh, delay );
		}
		return fresh;
	}

	function pollPanel( panel, delay = POLL_MS ) {
		window.setTimeout( async () => {
			if ( ! panel.isConnected ) {
				return;
			}
			try {
				const answer = await request( `/attachments/${ panel.dataset.id }/panel` );
				const fresh = showAnswer( panel, answer, Math.min( MAX_POLL_MS, 1.2 * delay ) );
				if ( ! answer.pending ) {
					wp.a11y.speak( answer.remark.label || __( 'The image was processed.', 'imgproc-local' ) );
					await refreshCells( [ fresh.dataset.id ] );
				}
			} catch ( error ) {
				say( panel, error.message );
			}
		}, delay );
	}

	async function act( button ) {
		const panel = button.closest( '.imgproc-local-panel' );
		const action = button.dataset.imgprocAction;
		const proposal = button.closest( '.imgproc-local-text' );
		const data = {};
		if ( proposal ) {
			data.language = proposal.dataset.language;
		}
		if ( 'accept' === action ) {
			data.alt = proposal.querySelector( 'textarea' ).value;
		}
		panel.setAttribute( 'aria-busy', 'true' );
		panel.querySelectorAll( 'button, textarea' ).forEach( ( control ) => {
			control.disabled = true;
		} );
		try {
			const answer = await request( `/attachments/${ panel.dataset.id }/${ action }`, data );
			const fresh = showAnswer( panel, answer );
			fresh.focus();
			const messages = {
				accept: __( 'The alt text was saved.', 'imgproc-local' ),
				regenerate: __( 'The text is being written again.', 'imgproc-local' ),
				process: __( 'The image was added to the queue.', 'imgproc-local' ),
			};
			wp.a11y.speak( messages[ action ] );
			await refreshCells( [ fresh.dataset.id ] );
		} catch ( error ) {
			panel.removeAttribute( 'aria-busy' );
			panel.querySelectorAll( 'button, textarea' ).forEach( ( control ) => {
				control.disabled = false;
			} );
			button.focus();
			say( panel, error.message );
		}
	}

	/** Opens the panel of an image below its alt text in the list, or closes it. */
	async function toggleReview( link ) {
		const cell = document.querySelector( `.imgproc-local-cell[data-id="${ link.dataset.id }"]` );
		const open = cell.parentElement.querySelector( '.imgproc-local-panel' );
		if ( open ) {
			open.remove();
			link.setAttribute( 'aria-expanded', 'false' );
			return;
		}
		try {
			const answer = await request( `/attachments/${ link.dataset.id }/panel` );
			const panel = fromHtml( answer.html );
			cell.after( panel );
			link.setAttribute( 'aria-expanded', 'true' );
			panel.focus();
			if ( answer.pending ) {
				pollPanel( panel );
			}
		} catch ( error ) {
			wp.a11y.speak( error.message, 'assertive' );
			window.location.assign( link.href );
		}
	}

	document.addEventListener( 'click', ( event ) => {
		const button = event.target.closest( '.imgproc-local-panel button' );
		const link = event.target.closest( 'a.imgproc-local-review' );
		if ( button ) {
			event.preventDefault();
			act( button );
		} else if ( link && document.querySelector( '.imgproc-local-cell' ) ) {
			event.preventDefault();
			toggleReview( link );
		}
	} );

	// The media modal saves and redraws its fields at every change; a text under review must not be saved by that.
	document.addEventListener( 'change', ( event ) => {
		if ( event.target.closest( '.imgproc-local-panel' ) ) {
			event.stopPropagation();
		}
	}, true );

	/** Polls for each panel inside an element whose image waits. */
	function pollPanels( root ) {
		root.querySelectorAll( '.imgproc-local-panel[data-pending]' ).forEach( ( panel ) => pollPanel( panel ) );
	}

	pollPanels( document );

	/* The cells of the list. */

	async function refreshCells( ids ) {
		const shown = ids.filter( ( id ) => document.querySelector( `.imgproc-local-cell[data-id="${ id }"]` ) );
		if ( ! shown.length ) {
			return;
		}
		const query = shown.map( ( id ) => 'ids[]=' + id ).join( '&' );
		const cells = await request( '/cells?' + query );
		Object.entries( cells ).forEach( ( [ id, cell ] ) => {
			const alt = document.querySelector( `.imgproc-local-cell[data-id="${ id }"]` );
			alt.innerHTML = cell.alt; // Escaped by the server.
			alt.toggleAttribute( 'data-pending', cell.pending );
			document.querySelector( `.imgproc-local-saved[data-id="${ id }"]` ).innerHTML = cell.saved;
		} );
	}

	function pollCells( delay = POLL_MS ) {
		window.setTimeout( async () => {
			const waiting = Array.from( document.querySelectorAll( '.imgproc-local-cell[data-pending]' ), ( cell ) => cell.dataset.id );
			if ( ! waiting.length ) {
				return;
			}
			try {
				await refreshCells( waiting.slice( 0, IDS_PER_REQUEST ) );
				pollCells( Math.min( MAX_POLL_MS, 1.1 * delay ) );
			} catch ( error ) {
				pollCells( MAX_POLL_MS );
			}
		}, delay );
	}

	pollCells();

	/* The dismissed notice on failed images. */

	document.addEventListener( 'click', ( event ) => {
		const notice = event.target.closest( '.imgproc-local-failed .notice-dismiss' ) && event.target.closest( '.imgproc-local-failed' );
		if ( notice ) {
			request( '/dismiss', { failed: Number( notice.dataset.failed ) } );
		}
	} );

	/* The grid and the modal. */

	function showRemark( id, remark ) {
		if ( wp.media && wp.media.model ) {
			wp.media.attachment( id ).set( 'imgprocLocal', remark );
		}
	}

	/**
	 * Polls the state of the grid's waiting images until none waits. The attributes of a finished image are loaded again,
	 * because its alt text and its panel have changed.
	 */
	function pollGrid( delay = POLL_MS ) {
		if ( gridTimer ) {
			return;
		}
		gridTimer = window.setTimeout( async () => {
			const waiting = wp.media.model.Attachments.all.filter( ( model ) => 'waiting' === ( model.get( 'imgprocLocal' ) || {} ).kind ).slice( 0, IDS_PER_REQUEST );
			if ( ! waiting.length ) {
				gridTimer = null;
				return;
			}
			let nextDelay = MAX_POLL_MS;
			try {
				const cells = await request( '/cells?' + waiting.map( ( model ) => 'ids[]=' + model.id ).join( '&' ) );
				for ( const model of waiting ) {
					const cell = cells[ model.id ];
					if ( ! cell || ! cell.pending ) {
						await model.fetch();
					}
				}
				nextDelay = Math.min( MAX_POLL_MS, 1.1 * delay );
			} catch ( error ) {
				// The site did not answer: ask again later.
			}
			gridTimer = null;
			pollGrid( nextDelay );
		}, delay );
	}

	function extendGrid( media ) {
		const Attachment = media.view.Attachment;
		const render = Attachment.prototype.render;
		Attachment.prototype.render = function () {
			render.apply( this, arguments );
			const remark = this.model.get( 'imgprocLocal' );
			if ( remark && remark.kind && this.$el.is( 'li.attachment' ) ) {
				const badge = document.createElement( 'span' );
				badge.className = 'imgproc-local-badge imgproc-local-' + remark.kind;
				badge.textContent = remark.label;
				this.$( '.attachment-preview' ).append( badge );
				this.$el.attr( 'aria-label', this.model.get( 'title' ) + ' – ' + remark.label );
			}
			if ( remark && 'waiting' === remark.kind ) {
				pollGrid();
			}
			return this;
		};

		const renderCompat = media.view.AttachmentCompat.prototype.render;
		media.view.AttachmentCompat.prototype.render = function () {
			renderCompat.apply( this, arguments );
			pollPanels( this.el );
			return this;
		};

		const Filter = media.view.AttachmentFilters.extend( {
			id: 'imgproc-local-grid-filter',
			createFilters() {
				this.filters = { all: { text: __( 'All alt texts', 'imgproc-local' ), props: { imgproc_local: null }, priority: 10 } };
				Object.entries( settings.filters ).forEach( ( [ name, text ] ) => {
					this.filters[ name ] = { text, props: { imgproc_local: name } };
				} );
			},
		} );

		const createToolbar = media.view.AttachmentsBrowser.prototype.createToolbar;
		media.view.AttachmentsBrowser.prototype.createToolbar = function () {
			createToolbar.apply( this, arguments );
			this.toolbar.set( 'imgprocLocalFilterLabel', new media.view.Label( {
				value: __( 'Filter by alt text', 'imgproc-local' ),
				attributes: { for: 'imgproc-local-grid-filter' },
				priority: -73,
			} ).render() );
			this.toolbar.set( 'imgprocLocalFilter', new Filter( {
				controller: this.controller,
				model: this.collection.props,
				priority: -73,
			} ).render() );
			if ( this.controller.isModeActive( 'grid' ) ) {
				const ProcessSelected = media.view.DeleteSelectedButton.extend( {
					filterChange() {}, // Else the button would change its label with the trash.
				} );
				this.toolbar.set( 'imgprocLocalProcess', new ProcessSelected( {
					style: 'secondary',
					disabled: true,
					text: __( 'Process with Imgproc Local', 'imgproc-local' ),
					controller: this.controller,
					priority: -60,
					click() {
						processSelection( this.controller );
					},
				} ).render() );
			}
		};
	}

	/** Adds the images selected in the grid to the queue, IDS_PER_REQUEST at a time. */
	async function processSelection( controller ) {
		const ids = controller.state().get( 'selection' ).pluck( 'id' );
		let added = 0;
		try {
			for ( let first = 0; first < ids.length; first += IDS_PER_REQUEST ) {
				const answer = await request( '/queue/add-ids', { ids: ids.slice( first, first + IDS_PER_REQUEST ) } );
				added += answer.added;
				ids.slice( first, first + IDS_PER_REQUEST ).forEach( ( id ) => showRemark( id, { kind: 'waiting', label: __( 'Waiting', 'imgproc-local' ) } ) );
				document.dispatchEvent( new window.CustomEvent( 'imgproc-local-added', { detail: answer.queue } ) );
			}
			/* translators: %s: Number of images. */
			wp.a11y.speak( sprintf( _n( '%s image was added.', '%s images were added.', added, 'imgproc-local' ), added ) );
			controller.trigger( 'selection:action:done' );
		} catch ( error ) {
			window.alert( error.message ); // eslint-disable-line no-alert -- The grid has no place for messages.
		}
	}

	if ( wp.media && wp.media.view && wp.media.view.AttachmentsBrowser ) {
		extendGrid( wp.media );
	}
}( window.wp, window.imgprocLocalLibrary ) );
