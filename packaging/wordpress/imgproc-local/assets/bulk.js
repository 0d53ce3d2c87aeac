/**
 * The progress of the queue and the controls of the bulk page.
 *
 * While images wait, the state of the queue is read every few seconds. The bar counts from the moment the queue was
 * first seen at work in this tab, because the server counts all images that were ever processed.
 */
( function ( wp, initial ) {
	'use strict';

	const { apiFetch, a11y, i18n } = wp;
	const { __, _n, sprintf } = i18n;
	const POLL_MS = 2500;
	const POLL_PAUSED_MS = 10000;
	const MAX_RETRIES = 10;
	const STORAGE_KEY = 'imgprocLocalStart';

	const box = document.querySelector( '.imgproc-local-progress' );
	const form = document.getElementById( 'imgproc-local-start' );
	let queue = initial;
	let start = null; // The counts when the batch began: { done, failed }. Null while there is no batch.
	let adding = false;
	let stopRequested = false;
	let timer = null;
	let retries = 0;
	let failure = ''; // Why the last request of this page failed; shown where a pause is.
	let spoken = { tenths: 0, message: '' };

	const request = ( data, path = '/queue' ) => apiFetch( { path: '/imgproc-local/v1' + path, method: data ? 'POST' : 'GET', data } );
	const number = ( value ) => value.toLocaleString( document.documentElement.lang || undefined );
	const isActive = () => adding || queue.waiting + queue.running > 0;

	/** Remembers the counts when the batch began in this tab, if the browser allows it. */
	function setStart( value ) {
		start = value;
		try {
			window.sessionStorage.setItem( STORAGE_KEY, JSON.stringify( value ) );
		} catch ( error ) {}
	}

	function readStart() {
		try {
			return JSON.parse( window.sessionStorage.getItem( STORAGE_KEY ) );
		} catch ( error ) {
			return null;
		}
	}

	function progressText( finished, failed, total ) {
		/* translators: 1: Number of finished images. 2: Number of all images of the batch. */
		let text = sprintf( __( '%1$s of %2$s images finished.', 'imgproc-local' ), number( finished ), number( total ) );
		if ( failed ) {
			/* translators: %s: Number of images. */
			text += ' ' + sprintf( _n( '%s image failed.', '%s images failed.', failed, 'imgproc-local' ), number( failed ) );
		}
		return text;
	}

	/**
	 * Shows the progress, and why the last request failed or the queue is paused. Speaks each new reason, and the progress at
	 * every tenth and at the end only, so that screen readers are not flooded.
	 */
	function render() {
		if ( isActive() && ! start ) {
			setStart( { done: queue.done, failed: queue.failed } );
		}
		const message = failure || queue.pause;
		const finished = start ? Math.max( 0, queue.done - start.done ) : 0;
		const failed = start ? Math.max( 0, queue.failed - start.failed ) : 0;
		const total = finished + failed + queue.waiting + queue.running;
		const tenths = total ? Math.floor( ( 10 * ( finished + failed ) ) / total ) : 0;
		const text = progressText( finished, failed, total );
		form.querySelector( '[type="submit"]' ).disabled = adding;
		box.hidden = 0 === total && ! failure;
		box.classList.toggle( 'notice-warning', '' !== message );
		box.classList.toggle( 'notice-info', '' === message );
		box.querySelector( '#imgproc-local-progress-text' ).textContent = text;
		box.querySelector( 'progress' ).max = Math.max( 1, total );
		box.querySelector( 'progress' ).value = finished + failed;
		box.querySelector( 'button' ).disabled = ! isActive() || stopRequested;
		box.querySelector( '.imgproc-local-pause' ).hidden = ! message;
		box.querySelector( '.imgproc-local-pause span' ).textContent = message;
		if ( message && message !== spoken.message ) {
			a11y.speak( message, 'assertive' );
		} else if ( start && tenths > spoken.tenths ) {
			a11y.speak( text );
		}
		spoken = { tenths, message };
		if ( ! isActive() ) {
			setStart( null );
		}
	}

	function update( answer ) {
		queue = answer;
		if ( start ) { // A processed image that is queued again is no longer in `done` or `failed`: it has to count once finished.
			setStart( { done: Math.min( start.done, queue.done ), failed: Math.min( start.failed, queue.failed ) } );
		}
		render();
		Object.entries( queue.counts || {} ).forEach( ( [ filter, count ] ) => {
			document.querySelectorAll( `.imgproc-local-count[data-filter="${ filter }"]` ).forEach( ( element ) => {
				element.textContent = count;
			} );
		} );
	}

	/** Shows the failure of a request. Returns whether there was none. */
	async function attempt( work ) {
		try {
			await work();
			return true;
		} catch ( error ) {
			failure = error.message || __( 'The site did not answer.', 'imgproc-local' );
			render();
			return false;
		}
	}

	function poll() {
		window.clearTimeout( timer );
		if ( ! isActive() || retries >= MAX_RETRIES ) {
			return;
		}
		timer = window.setTimeout( async () => {
			const answered = await attempt( async () => {
				const answer = await request();
				failure = retries ? '' : failure; // Only the failure of an earlier poll is over.
				update( answer );
			} );
			retries = answered ? 0 : retries + 1;
			poll();
		}, queue.pause || retries ? POLL_PAUSED_MS : POLL_MS );
	}

	/** Adds all images of a filter to the queue, one page per request, until the last page or until Stop. */
	async function addAll( filter ) {
		adding = true;
		failure = '';
		retries = 0;
		render();
		let added = 0;
		await attempt( async () => {
			for ( let after = 0; null !== after && ! stopRequested; ) {
				const answer = await request( { filter, after } );
				after = answer.after;
				added += answer.added;
				update( answer.queue );
			}
			/* translators: %s: Number of images. */
			a11y.speak( sprintf( _n( '%s image was added.', '%s images were added.', added, 'imgproc-local' ), number( added ) ) );
		} );
		adding = false;
		if ( stopRequested ) {
			await stop();
		}
		render();
		poll();
	}

	async function stop() {
		stopRequested = true;
		failure = '';
		render();
		if ( adding ) {
			return; // addAll() stops the queue after its current request.
		}
		await attempt( async () => {
			let before;
			do {
				before = queue.waiting;
				update( await request( {}, '/queue/stop' ) );
			} while ( queue.waiting && queue.waiting < before );
			a11y.speak( __( 'The queue was stopped.', 'imgproc-local' ), 'assertive' );
		} );
		stopRequested = false;
		render();
	}

	box.querySelector( 'button' ).addEventListener( 'click', stop );
	form.addEventListener( 'submit', ( event ) => {
		event.preventDefault();
		addAll( new FormData( form ).get( 'filter' ) );
	} );
	start = isActive() ? readStart() : null;
	render();
	poll();
}( window.wp, window.imgprocLocal.bulk ) );
