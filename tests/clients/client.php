<?php
// process, poll, download with PHP's curl. BASE_URL, API_KEY, PICTURE and OUT come from the environment.
declare(strict_types=1);

function call(string $path, ?array $form = null): string
{
    $curl = curl_init(getenv('BASE_URL') . $path);
    curl_setopt_array($curl, [
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => 60,
        CURLOPT_HTTPHEADER => ['Authorization: Bearer ' . getenv('API_KEY')],
    ]);
    if ($form !== null) {
        curl_setopt($curl, CURLOPT_POSTFIELDS, $form);
    }
    $body = curl_exec($curl);
    $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
    if ($body === false || $status >= 400) {
        fwrite(STDERR, "$path: $status " . ($body === false ? curl_error($curl) : $body) . "\n");
        exit(1);
    }
    return $body;
}

$dispatch = json_decode(call('/images/process', [
    'image' => new CURLFile(getenv('PICTURE')),
    'languages[0]' => 'en',
    'languages[1]' => 'de',
    'format' => 'webp',
]), true, 16, JSON_THROW_ON_ERROR);

for ($tries = 0; $tries < 120; $tries++) {
    $body = call('/jobs/' . $dispatch['data']['job_id']);
    $job = json_decode($body, true, 16, JSON_THROW_ON_ERROR)['data'];
    if (in_array($job['status'], ['completed', 'failed'], true)) {
        break;
    }
    usleep(500_000);
}
if ($job['status'] !== 'completed') {
    fwrite(STDERR, "the job did not complete: $body\n");
    exit(1);
}
$out = getenv('OUT');
file_put_contents("$out/job.json", $body);
file_put_contents("$out/optimized.jpg", call('/images/' . $job['image']['id'] . '/optimized'));
file_put_contents("$out/converted.webp", call('/images/' . $job['image']['id'] . '/converted'));
