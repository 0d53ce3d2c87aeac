/* Tests the address and the key that are in the fields, before they are saved. */
( function ( settings ) {
	'use strict';
	const button = document.getElementById( 'imgproc-local-test' );
	const result = document.getElementById( 'imgproc-local-test-result' );
	const show = function ( message, succeeded ) {
		result.textContent = message;
		result.className = succeeded ? 'notice-success' : 'notice-error';
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
		show( settings.testing, true );
		fetch( settings.url, { method: 'POST', credentials: 'same-origin', body } )
			.then( function ( answer ) {
				return answer.json();
			} )
			.then( function ( answer ) {
				show( answer.data.message, answer.success );
			} )
			.catch( function () {
				show( settings.failed, false );
			} )
			.finally( function () {
				button.disabled = false;
			} );
	} );
} )( window.imgprocLocalSettings );
