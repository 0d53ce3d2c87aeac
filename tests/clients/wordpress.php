<?php
// Replaces the functions of WordPress that the example in imgproc_local/api/plugins.md calls. Requests are sent with curl.
// update_post_meta and wp_schedule_single_event print what they receive as JSON.
$actions = [];

function add_action(string $name, callable $action): void
{
    global $actions;
    $actions[$name] = $action;
}

function wp_schedule_single_event(int $timestamp, string $name, array $arguments): void
{
    echo json_encode([$name, $arguments]);
}

function home_url(): string
{
    return 'https://blog.example';
}

function get_attached_file(int $id): string
{
    return 'photo.jpg';
}

function wp_generate_password(int $length, bool $special): string
{
    return substr(bin2hex(random_bytes($length)), 0, $length);
}

function wp_remote_get(string $url, array $options): array
{
    $curl = curl_init($url);
    $headers = array_map(fn($name, $value) => "$name: $value", array_keys($options['headers']), $options['headers']);
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_HTTPHEADER => $headers]);
    curl_setopt($curl, CURLOPT_TIMEOUT, $options['timeout'] ?? 5);
    if (isset($options['body'])) {
        curl_setopt($curl, CURLOPT_POSTFIELDS, $options['body']);
    }
    return ['body' => curl_exec($curl)];
}

function wp_remote_post(string $url, array $options): array
{
    return wp_remote_get($url, $options); // curl sends a request that has a body as POST
}

function wp_remote_retrieve_body(array $answer): string
{
    return $answer['body'];
}

function update_post_meta(int $id, string $key, string $value): void
{
    echo json_encode([$id, $key, $value]);
}
