<?php
// Runs process, poll, download, a list, an edited text, exports and each type of error body, with the PHP client of
// openapi-generator and Guzzle.
declare(strict_types=1);

use OpenAPI\Client\Api\AccountApi;
use OpenAPI\Client\Api\ExportsApi;
use OpenAPI\Client\Api\ImagesApi;
use OpenAPI\Client\Api\JobsApi;
use OpenAPI\Client\Api\TranslationsApi;
use OpenAPI\Client\ApiException;
use OpenAPI\Client\Configuration;
use OpenAPI\Client\Model\EditedTranslation;
use OpenAPI\Client\Model\ErrorBody;
use OpenAPI\Client\Model\ExportFields;
use OpenAPI\Client\Model\ExportIncompleteBody;
use OpenAPI\Client\Model\InsufficientCreditsBody;
use OpenAPI\Client\Model\JobData;
use OpenAPI\Client\Model\NoFileBody;
use OpenAPI\Client\Model\RateLimitBody;
use OpenAPI\Client\Model\TranslationEdit;
use OpenAPI\Client\Model\ValidationErrorBody;

error_reporting(E_ALL);
set_error_handler(fn($level, $text, $file, $line) => throw new ErrorException($text, 0, $level, $file, $line));
require getenv('GUZZLE') . '/autoload.php';
spl_autoload_register(function (string $class): void {
    require __DIR__ . '/lib/' . str_replace('\\', '/', substr($class, strlen('OpenAPI\\Client\\'))) . '.php';
});

/** @return array<string, mixed> the arguments of the constructor of an API class */
function arguments(string $key): array
{
    $config = (new Configuration())->setHost(getenv('BASE_URL'))->setApiKey('X-API-Key', $key);
    return ['client' => new GuzzleHttp\Client(['timeout' => 60]), 'config' => $config];
}

function check(bool $holds): void
{
    if (!$holds) {
        throw new LogicException('not as expected');
    }
}

/** The typed body of the error that $call is answered with. */
function refusal(int $status, string $class, callable $call): object
{
    try {
        $call();
    } catch (ApiException $error) {
        check($error->getCode() === $status);
        check($error->getResponseObject() instanceof $class);
        return $error->getResponseObject();
    }
    throw new LogicException("expected $status");
}

[$images, $jobs] = [new ImagesApi(...arguments(getenv('API_KEY'))), new JobsApi(...arguments(getenv('API_KEY')))];
$picture = fn() => new SplFileObject(getenv('PICTURE'));

// process -> poll -> download
$upload = fn() => $images->process($picture(), languages: ['en', 'de'], format: 'webp', idempotency_key: 'one upload');
$jobId = $upload()->getData()->getJobId();
do {
    $job = $jobs->getJob($jobId, prefer: 'wait=20')->getData();
} while (!in_array($job->getStatus(), [JobData::STATUS_COMPLETED, JobData::STATUS_FAILED], true));
check($job->getStatus() === JobData::STATUS_COMPLETED);
file_put_contents(getenv('OUT') . '/job.json', json_encode(['data' => $job]));

$imageId = $job->getImage()->getId();
foreach (['optimized' => 'optimized.jpg', 'converted' => 'converted.webp'] as $which => $name) {
    $file = $images->$which($imageId);
    check($file instanceof SplFileObject);
    copy($file->getRealPath(), getenv('OUT') . "/$name");
}

// lists, texts, archives
$listed = $jobs->listJobs(needs_text: 'true', limit: 1, include: 'details');
check($listed->getData()[0]->getImage()->getDetails()->getOperation() === 'process' && $listed->getNextCursor() === null);
$edit = (new TranslationEdit())->setSeoAltText('A lighthouse by the sea.');
$edited = (new TranslationsApi(...arguments(getenv('API_KEY'))))->editTranslation($imageId, 'en', $edit)->getData();
check($edited->getSource() === EditedTranslation::SOURCE_PERSON && $edited->getNeedsTextReason() === null);
$exports = new ExportsApi(...arguments(getenv('API_KEY')));
$incomplete = fn() => $exports->export((new ExportFields())->setImages([$imageId]));
check(refusal(409, ExportIncompleteBody::class, $incomplete)->getNeedsText()[0]->getLanguages() === ['de']);
$archive = $exports->export((new ExportFields())->setAllowNeedsText(true));
check($archive instanceof SplFileObject && $archive->fread(2) === 'PK');

// errors
$account = new AccountApi(...arguments('imgp_wrong'));
check(refusal(401, ErrorBody::class, fn() => $account->balance())->getMessage() === 'Unauthenticated.');
$languages = ['en', 'de', 'fr', 'es', 'it', 'nl', 'pl', 'pt', 'sv', 'da'];
$unaffordable = fn() => $images->process($picture(), languages: $languages);
check(refusal(402, InsufficientCreditsBody::class, $unaffordable)->getShortfall() > 0);
refusal(413, ErrorBody::class, fn() => $images->optimize(new SplFileObject(getenv('LARGE_FILE'))));
$invalid = refusal(422, ValidationErrorBody::class, fn() => $images->optimize(new SplFileObject(__FILE__)));
check(count($invalid->getErrors()['image']) === 1);
$limited = new AccountApi(...arguments(getenv('LIMITED_KEY')));
$limited->balance();
check(refusal(429, RateLimitBody::class, fn() => $limited->balance())->getRetryAfter() > 0);
refusal(404, ErrorBody::class, fn() => $jobs->getJob(str_repeat('0', 26)));
$analyzed = $jobs->getJob($images->analyze($picture())->getData()->getJobId())->getData();
$absent = refusal(404, NoFileBody::class, fn() => $images->optimized($analyzed->getImage()->getId()));
check($absent->getError() !== '');

// the same Idempotency-Key again gives the same job
check($upload()->getData()->getJobId() === $jobId);
