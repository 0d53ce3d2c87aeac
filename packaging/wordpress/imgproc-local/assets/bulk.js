/**
 * The progress of the queue, on the bulk page and above the media library, and the controls of the bulk page.
 *
 * While images wait, the state of the queue is read every few seconds. The bar counts from the moment the queue was
 * first seen at work in this tab, because the server counts all images that were ever processed.
 */
( function ( wp, state ) {
	'use strict';

	const { __, _n, sprintf } = wp.i18n;
	const POLL_MS = 2500;
	const POLL_PAUSED_MS = 10000;
	const MAX_RETRIES = 10;
	const STORAGE_KEY = 'imgprocLocalStart';

	let queue = state;
	let baseline = null; // The counts when the batch began: { done, failed }. Null while there is no batch.
	let adding = false;
	let stopRequested = false;
	let timer = null;
	let retries = 0;
	let failure = ''; // Why the last request of this page failed; shown where a pause is.
	let spoken = { tenths: 0, pause: '' };

	function request( path, data ) {
		return wp.apiFetch( {
			path: '/imgproc-local/v1' + path,
			method: data ? 'POST' : 'GET',
			data,
		} );
	}

	function isActive() {
		return adding || queue.waiting + queue.running > 0;
	}

	function number( value ) {
		return value.toLocaleString( document.documentElement.lang || undefined );
	}

	function readBaseline() {
		try {
			return JSON.parse( window.sessionStorage.getItem( STORAGE_KEY ) );
		} catch ( error ) {
			return null; // The browser forbids storage: count from this page view.
		}
	}

	function storeBaseline( value ) {
		baseline = value;
		try {
			if ( value ) {
				window.sessionStorage.setItem( STORAGE_KEY, JSON.stringify( value ) );
			} else {
				window.sessionStorage.removeItem( STORAGE_KEY );
			}
		} catch ( error ) {
			// The browser forbids storage: the baseline is known until the page is left.
		}
	}

	function counts() {
		const finished = Math.max( 0, queue.done - baseline.done );
		const failed = Math.max( 0, queue.failed - baseline.failed );
		return { finished, failed, total: finished + failed + queue.waiting + queue.running };
	}

	function progressText( { finished, failed, total } ) {
		/* translators: 1: Number of finished images. 2: Number of all images of the batch. */
		let text = sprintf( __( '%1$s of %2$s images finished.', 'imgproc-local' ), number( finished ), number( total ) );
		if ( failed ) {
			/* translators: %s: Number of images. */
			text += ' ' + sprintf( _n( '%s image failed.', '%s images failed.', failed, 'imgproc-local' ), number( failed ) );
		}
		return text;
	}

	/** Speaks each new reason for a pause, and the progress at every tenth only, so that screen readers are not flooded. */
	function announce( text, { finished, failed, total } ) {
		const tenths = total ? Math.floor( ( 10 * ( finished + failed ) ) / total ) : 0;
		if ( queue.pause && queue.pause !== spoken.pause ) {
			wp.a11y.speak( queue.pause, 'assertive' );
		} else if ( tenths > spoken.tenths ) {
			wp.a11y.speak( text );
		}
		spoken = { tenths, pause: queue.pause };
	}

	function render() {
		const active = isActive();
		if ( active && ! baseline ) {
			storeBaseline( { done: queue.done, failed: queue.failed } );
		}
		const submit = document.querySelector( '#imgproc-local-start [type="submit"]' );
		if ( submit ) {
			submit.disabled = adding;
		}
		renderMessage();
		if ( ! baseline ) {
			return;
		}
		const current = counts();
		const text = progressText( current );
		document.querySelectorAll( '.imgproc-local-progress' ).forEach( ( box ) => {
			box.parentElement.hidden = 0 === current.total && ! failure;
			if ( box.parentElement.matches( '.notice' ) ) {
				box.parentElement.classList.toggle( 'notice-warning', '' !== queue.pause );
				box.parentElement.classList.toggle( 'notice-info', '' === queue.pause );
			}
			box.querySelector( '#imgproc-local-progress-text' ).textContent = text;
			const bar = box.querySelector( 'progress' );
			bar.max = Math.max( 1, current.total );
			bar.value = current.finished + current.failed;
			const stop = box.querySelector( '[data-imgproc-action="stop"]' );
			if ( stop ) {
				stop.disabled = ! active || stopRequested;
			}
		} );
		announce( text, current );
	}

	/** Shows why the last request failed or why the queue is paused. */
	function renderMessage() {
		const message = failure || queue.pause;
		document.querySelectorAll( '.imgproc-local-progress' ).forEach( ( box ) => {
			const line = box.querySelector( '.imgproc-local-pause' );
			line.hidden = ! message;
			line.querySelector( 'span' ).textContent = message;
			if ( failure ) {
				box.parentElement.hidden = false;
			}
		} );
	}

	function showError( error ) {
		failure = error.message || __( 'The site did not answer.', 'imgproc-local' );
		renderMessage();
	}

	function update( answer ) {
		const wasActive = isActive();
		queue = answer;
		if ( baseline ) { // A processed image that is queued again is no longer in `done` or `failed`: it has to count once finished.
			storeBaseline( { done: Math.min( baseline.done, queue.done ), failed: Math.min( baseline.failed, queue.failed ) } );
		}
		render();
		if ( wasActive && ! isActive() ) {
			finish();
		}
	}

	function finish() {
		wp.a11y.speak( progressText( counts() ), 'assertive' );
		storeBaseline( null );
		spoken = { tenths: 0, pause: '' };
		refreshPage().catch( showError );
	}

	function poll() {
		window.clearTimeout( timer );
		if ( ! isActive() ) {
			return;
		}
		timer = window.setTimeout( async () => {
			try {
				const answer = await request( '/queue' );
				failure = retries ? '' : failure; // Only the failure of an earlier poll is over.
				update( answer );
				retries = 0;
			} catch ( error ) {
				showError( error );
				retries += 1;
			}
			if ( retries < MAX_RETRIES ) {
				poll();
			}
		}, ( queue.pause || retries ? POLL_PAUSED_MS : POLL_MS ) );
	}

	/** Reads the numbers of the groups and the failed images again. */
	async function refreshPage() {
		const list = document.getElementById( 'imgproc-local-failures' );
		if ( ! list ) {
			return;
		}
		await showFailures( 1 );
		const numbers = await request( '/queue/counts' );
		document.querySelectorAll( '.imgproc-local-count' ).forEach( ( count ) => {
			count.textContent = '(' + numbers[ count.dataset.filter ] + ')';
		} );
	}

	async function showFailures( page ) {
		const answer = await request( '/queue/failures?page=' + page );
		document.getElementById( 'imgproc-local-failures' ).innerHTML = answer.html; // Escaped by the server.
	}

	/** Adds all images of a filter to the queue, one page per request, until the last page or until Stop. */
	async function addAll( filter ) {
		adding = true;
		stopRequested = false;
		failure = '';
		if ( ! baseline ) {
			storeBaseline( { done: queue.done, failed: queue.failed } );
		}
		render();
		let after = 0;
		let added = 0;
		try {
			while ( null !== after && ! stopRequested ) {
				const answer = await request( '/queue/add', { filter, after } );
				after = answer.after;
				added += answer.added;
				update( answer.queue );
				poll();
			}
			/* translators: %s: Number of images. */
			wp.a11y.speak( sprintf( _n( '%s image was added.', '%s images were added.', added, 'imgproc-local' ), number( added ) ) );
		} catch ( error ) {
			showError( error );
			wp.a11y.speak( error.message, 'assertive' );
		}
		adding = false;
		if ( stopRequested ) {
			await stop();
		}
		render();
		if ( baseline && ! isActive() ) {
			if ( added ) {
				finish();
			} else {
				storeBaseline( null );
			}
		}
		poll();
	}

	async function stop() {
		stopRequested = true;
		failure = '';
		render();
		if ( adding ) {
			return; // addAll() stops the queue after its current request.
		}
		try {
			let before;
			do {
				before = queue.waiting;
				update( await request( '/queue/stop', {} ) );
			} while ( queue.waiting && queue.waiting < before );
			wp.a11y.speak( __( 'The queue was stopped.', 'imgproc-local' ), 'assertive' );
		} catch ( error ) {
			showError( error );
		}
		stopRequested = false;
		render();
	}

	async function retry( button ) {
		button.disabled = true;
		failure = '';
		try {
			const answer = await request( '/queue/add-ids', { ids: [ Number( button.dataset.id ) ] } );
			button.closest( 'tr' ).remove();
			update( answer.queue );
			poll();
		} catch ( error ) {
			button.disabled = false;
			showError( error );
		}
	}

	document.addEventListener( 'click', ( event ) => {
		const button = event.target.closest( '.imgproc-local-progress button, #imgproc-local-failures button' );
		if ( ! button ) {
			return;
		}
		const action = button.dataset.imgprocAction;
		if ( 'stop' === action ) {
			stop();
		} else if ( 'retry' === action ) {
			retry( button );
		} else if ( 'page' === action ) {
			showFailures( Number( button.dataset.page ) ).catch( showError );
		}
	} );

	document.addEventListener( 'submit', ( event ) => {
		if ( 'imgproc-local-start' === event.target.id ) {
			event.preventDefault();
			addAll( new FormData( event.target ).get( 'filter' ) );
		}
	} );

	// The library's script added images: the queue may have begun to work.
	document.addEventListener( 'imgproc-local-added', ( event ) => {
		update( event.detail );
		poll();
	} );

	baseline = isActive() ? readBaseline() : null;
	render();
	poll();
}( window.wp, window.imgprocLocalQueue ) );
