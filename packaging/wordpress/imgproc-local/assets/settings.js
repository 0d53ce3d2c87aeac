/* Tests the address and the key that are in the fields, before they are saved. */
( function ( { apiFetch, i18n } ) {
	const field = ( name ) => document.getElementById( 'imgproc-local-' + name );
	const show = ( message, kind ) => {
		const line = document.createElement( 'p' );
		line.textContent = message;
		field( 'test-result' ).replaceChildren( line );
		field( 'test-result' ).className = 'notice inline notice-' + kind;
	};
	field( 'test' ).addEventListener( 'click', async ( { currentTarget: button } ) => {
		button.disabled = true;
		show( i18n.__( 'Testing …', 'imgproc-local' ), 'info' );
		try {
			const data = { address: field( 'address' ).value, key: field( 'key' ).value || '' };
			show( await apiFetch( { path: '/imgproc-local/v1/test', method: 'POST', data } ), 'success' );
		} catch ( error ) {
			show( error.message, 'error' );
		}
		button.disabled = false;
	} );
}( window.wp ) );
