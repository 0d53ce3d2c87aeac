/* Tests the address and the key that are in the fields, before they are saved. */
( function ( settings ) {
	'use strict';
	const button = document.getElementById( 'imgproc-local-test' );
	const result = document.getElementById( 'imgproc-local-test-result' );
	const show = function ( message, kind ) {
		const line = document.createElement( 'p' );
		line.textContent = message;
		result.replaceChildren( line );
		result.className = 'notice inline notice-' + kind;
	};
	if ( ! button || ! result ) {
		return;
	}
	button.addEventListener( 'click', function () {
		const key = document.getElementById( 'imgproc-local-key' );
		const body = new URLSearchParams( {
			action: 'imgproc_local_test',
			_ajax_nonce: settings.nonce,
			address: document.getElementById( 'imgproc-local-address' ).value,
			key: ( key && key.value ) || '',
		} );
		button.disabled = true;
		show( settings.testing, 'info' );
		fetch( settings.url, { method: 'POST', credentials: 'same-origin', body } )
			.then( function ( answer ) {
				return answer.json();
			} )
			.then( function ( answer ) {
				show( answer.data.message, answer.success ? 'success' : 'error' );
			} )
			.catch( function () {
				show( settings.failed, 'error' );
			} )
			.finally( function () {
				button.disabled = false;
			} );
	} );
} )( window.imgprocLocalSettings );
