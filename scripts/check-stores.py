"""Compares the ledgers of remote files with those of the local ones.  usage: check-stores.py MILLRACE FOLDER (an empty one)"""

import base64
import hashlib
import http.client
import http.server
import io
import json
import logging
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import urllib.parse
import zipfile
import zlib

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
from moto.server import ThreadedMotoServer

import stores_data
from ports import free_port

program, folder = sys.argv[1:]
seed = int(os.environ.get('MILLRACE_SEED', '1'))
print(f'seed {seed}')
KEY, SECRET, TOKEN, REGION = 'AKEXAMPLE', 'Secret/Key+Value', 'Token/Value==', 'eu-west-1'
SHARDS = stores_data.SHARDS
os.environ['MOTO_S3_DEFAULT_MAX_KEYS'] = '7'  # listings have pages; moto reads it when it is imported
os.chdir(folder)
logging.getLogger('werkzeug').setLevel(logging.ERROR)

failures = []


def check(good, what):
    print('ok  ' if good else 'BAD ', what, flush=True)
    if not good:
        failures.append(what)


# ---- servers ----

class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on.  `trouble` percent of them meet one of the troubles drawn from the seed; `lie` all of them."""
    protocol_version = 'HTTP/1.1'
    upstream = None
    trouble, lie, signed, requests, wrong_signatures = 0, None, False, 0, 0
    credentials = botocore.credentials.Credentials(KEY, SECRET)
    draw, lock = random.Random(seed), threading.Lock()

    def log_message(self, *words):
        pass

    def is_signed(self):
        """Whether botocore signs this request in the same way."""
        auth = self.headers.get('Authorization', '')
        if 'SignedHeaders=' not in auth:
            return False
        names = auth.split('SignedHeaders=')[1].split(',')[0].split(';')
        request = botocore.awsrequest.AWSRequest(
            'GET', f'http://{self.headers["Host"]}{self.path}',
            headers={k: v for k, v in self.headers.items() if k.lower() in names and k.lower() != 'host'})
        request.context['timestamp'] = self.headers['X-Amz-Date']
        signer = botocore.auth.S3SigV4Auth(self.credentials, 's3', REGION)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        return f'Signature={signer.signature(text, request)}' in auth

    def fetch(self):
        connection = http.client.HTTPConnection(*self.upstream)
        connection.putrequest('GET', self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        drop = ('transfer-encoding', 'connection', 'date', 'server', 'content-length')
        return answer.status, [h for h in answer.getheaders() if h[0].lower() not in drop], body

    def lie_in_listing(self, body):
        """What a server may say instead of a page of a listing."""
        if self.lie == 'list-cut':
            return body[:len(body) // 2]
        if self.lie == 'list-endless':
            return re.sub(b'<NextContinuationToken>.*?</', b'<NextContinuationToken>same</', body)
        if self.lie == 'list-again':
            return re.sub(b'<NextContinuationToken>.*?</', f'<NextContinuationToken>{Proxy.requests}</'.encode(), body)
        if self.lie == 'list-empty':
            body = re.sub(b'<Contents>.*?</Contents>', b'', body)
            return re.sub(b'<NextContinuationToken>.*?</', f'<NextContinuationToken>{Proxy.requests}</'.encode(), body)
        if self.lie == 'list-tokenless':
            return re.sub(b'<NextContinuationToken>.*?</NextContinuationToken>', b'', body)
        if self.lie == 'list-parent':
            return body.replace(b'/a b/', b'/../', 1)
        if self.lie == 'list-elsewhere':
            return body.replace(b'<Key>tree/', b'<Key>other/', 1)
        if self.lie == 'list-million':
            token = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get('continuation-token', ['0'])[0]
            rows = ''.join(f'<Contents><Key>tree/c{int(token) % 500:03d}/picture-{int(token) * 1000 + i:08d}.png</Key><ETag>&quot;{"e" * 32}&quot;</ETag>'
                           f'<Size>9</Size></Contents>' for i in range(1000))
            return (f'<ListBucketResult><IsTruncated>{"true" if int(token) < 999 else "false"}</IsTruncated>{rows}'
                    f'<NextContinuationToken>{int(token) + 1}</NextContinuationToken></ListBucketResult>').encode()
        return body

    def answer(self, status, headers, body, length=None):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header('Content-Length', str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with Proxy.lock:
            Proxy.requests += 1
            trouble = self.draw.choice(('delay', 'cut', 'corrupt', 'busy', 'limit', 'silent')) if self.draw.random() * 100 < self.trouble else None
            where = self.draw.random()
        if self.signed and not self.is_signed():
            with Proxy.lock:
                Proxy.wrong_signatures += 1
        if self.lie == 'list-million':
            if 'list-type' in self.path:
                return self.answer(200, [], self.lie_in_listing(b''))
            return self.answer(206, [('Content-Range', 'bytes 0-8/9'), ('ETag', f'"{"e" * 32}"')], b'123456789')
        if self.lie in ('list-endless', 'list-again', 'list-empty'):
            self.path = re.sub('continuation-token=[^&]*&', '', self.path)
        status, headers, body = self.fetch()
        if 'list-type' in self.path and status == 200:
            body = self.lie_in_listing(body)
        if status == 206 and self.trouble:
            headers.append(('Content-Digest', f'sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:'))
        if trouble == 'busy':
            return self.answer(503, [('Retry-After', '0')], b'<Error><Code>SlowDown</Code></Error>')
        if trouble == 'limit':
            return self.answer(429, [], b'slow down')
        if trouble == 'delay':
            time.sleep(where * 0.1)
        if trouble == 'corrupt' and body and status == 206:  # a listing has no digest by which that is noticed
            at = int(where * len(body))
            body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1:]
        if trouble in ('cut', 'silent'):
            self.answer(status, headers, body[:int(where * len(body))], len(body))
            if trouble == 'silent':
                time.sleep(0.6)
            self.close_connection = True
            return None
        if self.lie == 'skewed':
            return self.answer(403, [], b'<Error><Code>RequestTimeTooSkewed</Code></Error>')
        if self.lie == 'archived':
            return self.answer(403, [], b'<Error><Code>InvalidObjectState</Code></Error>')
        if self.lie == 'short':
            body = body[:-1]
        if self.lie == 'whole':
            status, headers, body = 200, [], body * 3
        if self.lie == 'range':
            headers = [(n, v.replace('bytes ', 'bytes 1') if n.lower() == 'content-range' else v) for n, v in headers]
        if self.lie == 'size':
            headers = [(n, v + '0' if n.lower() == 'content-range' else v) for n, v in headers]
        return self.answer(status, headers, body)


class Metadata(http.server.BaseHTTPRequestHandler):
    """Credentials as IMDSv2 gives them; without a session's token there are none."""
    def log_message(self, *words):
        pass

    def say(self, status, text):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        good = self.path == '/latest/api/token' and self.headers.get('X-aws-ec2-metadata-token-ttl-seconds')
        self.say(200 if good else 400, 'session')

    def do_GET(self):
        base = '/latest/meta-data/iam/security-credentials/'
        if self.headers.get('X-aws-ec2-metadata-token') != 'session':
            self.say(401, '')
        elif self.path == base:
            self.say(200, 'role')
        elif self.path == base + 'role':
            self.say(200, json.dumps({'AccessKeyId': KEY, 'SecretAccessKey': SECRET, 'Token': TOKEN,
                                      'Expiration': '2099-01-01T00:00:00Z'}))
        else:
            self.say(404, '')


class Astray(http.server.BaseHTTPRequestHandler):
    """A server elsewhere that leads to this machine."""
    protocol_version = 'HTTP/1.1'
    to = ''

    def do_GET(self):
        self.send_response(302)
        self.send_header('Location', self.to + self.path)
        self.send_header('Content-Length', '0')
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def own_address():
    """An address of this machine that other hosts could use; None: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(('192.0.2.1', 9))  # sends nothing
            return s.getsockname()[0]
        except OSError:
            return None


def check_astray(names, local, plain):
    address = own_address()
    if not address:
        print('     not checked, as this machine has no address of its own: redirects to loopback addresses')
        return
    Astray.to = f'http://127.0.0.1:{plain}'
    away = f'http://{address}:{serve(Astray, address)}'
    fails('a redirect to this machine', 'redirects to an address of this machine', run(f'{away}/{names}'))
    same('a redirect to this machine, by a word', local, run(f'{away}/{names}', 'local-redirects'))


def serve(handler, address='127.0.0.1'):
    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request, client):  # clients that give up are part of the check
            pass
    server = Server((address, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def start_nginx():
    """Returns the ports of http and of https with HTTP/2; another port is tried if one was taken meanwhile."""
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'key.pem', '-out', 'cert.pem',
                    '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
                   check=True, capture_output=True)
    for _ in range(20):
        plain, tls = free_port(), free_port()
        with open('nginx.conf', 'w') as conf:
            conf.write(f'''daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{}}
http {{ access_log off; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
server {{ listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl http2; ssl_certificate {folder}/cert.pem;
ssl_certificate_key {folder}/key.pem; root {folder}/www; location /plain/ {{ alias {folder}/www/; max_ranges 0; }}
location /clear/ {{ rewrite ^/clear/(.*)$ http://127.0.0.1:{plain}/$1 redirect; }} }} }}''')
        server = subprocess.Popen(['nginx', '-c', f'{folder}/nginx.conf', '-e', f'{folder}/nginx.log'], stderr=subprocess.DEVNULL)
        for _ in range(100):
            if server.poll() is not None:
                break
            try:
                socket.create_connection(('127.0.0.1', plain), 1).close()
                return server, plain, tls
            except OSError:
                time.sleep(0.05)
    sys.exit('stores: nginx does not start')


# ---- runs ----

def run(files, settings='', variables=None, start=False, source='tar', fields='fields=jpg:image,cls:label', index=True):
    """Runs a shuffled graph to its end; returns its ledger, or None, and what it said."""
    kept = f'index=index-{run.n % 3}' if index else ''
    return run_source(f'{source} files="{files}" {fields} {kept} {AGAIN} {settings}', variables, start)


def run_source(source, variables=None, start=False, more='', words=()):
    """The same for a source with its settings; `more` are settings of the ledger, `words` of the command."""
    run.n += 1
    ledger = f'ledger-{run.n}'
    graph = f'{source} ! shuffle seed=3 epochs=2 ! batch 16 workers=3 ! ledger {ledger} {more}'
    env = {k: v for k, v in os.environ.items() if not k.startswith('AWS_') and not k.lower().endswith('_proxy')}
    env |= {'HOME': folder, 'AWS_EC2_METADATA_DISABLED': 'true'} | (variables or {})
    process = subprocess.Popen([program, 'run', graph, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if start:
        return process, ledger
    text, _ = process.communicate(timeout=300)
    for secret in (SECRET, TOKEN):
        if secret in text:
            check(False, f'a secret is shown: {graph}')
    return (open(ledger).read() if process.returncode == 0 else None), text


run.n = 0
AGAIN = 'retries=40 backoff=0.01 timeout=0.3'


def contents(files, settings='', variables=None):
    """The bytes of all records of one epoch, which a ledger does not hold."""
    out = b''
    for step in (1, 2):
        graph = f'tar files="{files}" fields=jpg:image,cls:label index=index-0 retries=40 backoff=0.01 timeout=0.3 {settings} ! shuffle seed=3 ! batch 225'
        subprocess.run([program, 'batch', graph, '--step', str(step), '--out', 'batch.npz'], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ) | {'AWS_EC2_METADATA_DISABLED': 'true'} | (variables or {}))
        with zipfile.ZipFile('batch.npz') as arrays:
            out += b''.join(arrays.read(name) for name in sorted(arrays.namelist()))
    return out


def bytes_of(source, variables=None):
    """All records of one epoch."""
    graph = f'{source} ! shuffle seed=3 ! batch 10000'
    subprocess.run([program, 'batch', graph, '--step', '1', '--out', 'batch.npz'], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env=dict(os.environ) | {'AWS_EC2_METADATA_DISABLED': 'true'} | (variables or {}))
    with zipfile.ZipFile('batch.npz') as arrays:
        return b''.join(arrays.read(name) for name in sorted(arrays.namelist()))


def compare(name, here, there, variables=None):
    """There are the ledger and the bytes of here."""
    same(name, run_source(here)[0], run_source(there, variables))
    check(bytes_of(there, variables) == bytes_of(here), f'{name}: the bytes')


def check_arrays(where, variables=None):
    def at(folder):
        return f'npy fields=x:{folder}/x.npy ragged=t:{folder}/t.npy:{folder}/at.npy labels={folder}/y.npy'
    for settings in ('', 'memory=0', 'memory=0 read-ahead=false', 'memory=0 cache=cache-n cache-size=20kB cache-block=4096'):
        compare(f'npy {where} {settings}', at('www/arrays'), f'{at(where)} {AGAIN} {settings}', variables)


def kill_and_resume(name, expected, source, variables=None):
    state = f'state-{run.n}'
    process, ledger = run_source(source, variables, True, f'state={state}')
    while process.poll() is None and not os.path.exists(state):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with open(state) as f:
        step = json.load(f)['step']
    with open(expected) as f:
        rest = [line for line in f if int(line.split()[0]) > step]
    again, text = run_source(source, variables, False, '', ('--from', state))
    check(again == ''.join(rest), f'{name}, killed after step {step} and resumed' + ('' if again else f': {text[-700:]}'))


def check_listings(client, upstream, through, ends):
    """A folder in a bucket: pages, liars, and files that change after they were listed."""
    here, there = 'folder www/tree', f'folder s3://photos/tree {AGAIN} index=index-f'
    for path, _, files in os.walk('www/tree'):
        for name in files:
            client.upload_file(f'{path}/{name}', 'photos', os.path.relpath(f'{path}/{name}', 'www'))
    client.put_object(Bucket='photos', Key='tree/')  # as some tools mark a folder
    before = Proxy.wrong_signatures
    behave(10, upstream=upstream, signed=True)
    compare('folder, s3, listed', here, there, ends)
    check(Proxy.wrong_signatures == before, 'requests for listings are signed as botocore does')
    compare('folder, s3, a list', f'{here} list=www/tree/list.csv', f'folder list=s3://photos/tree/list.csv {AGAIN} index=index-f', ends)
    compare('folder, s3, a cache', here, f'{there} cache=cache-f cache-size=100kB cache-block=4096', ends)
    behave()
    run_source(here)
    kill_and_resume('folder, s3', f'ledger-{run.n}', there, ends)
    for lie, piece in (('cut', 'ends early'), ('endless', 'a continuation token comes again'), ('again', 'files come again'), ('empty', 'its pages are empty'),
                       ('tokenless', 'no continuation token'), ('parent', 'want the path of a file below a folder'), ('elsewhere', 'which is not below it')):
        behave(0, f'list-{lie}')
        fails(f'a listing that lies: {lie}', piece, run_source(f'{there} relist=true', ends))
    behave(0, 'list-million')
    env = dict(os.environ) | {'AWS_EC2_METADATA_DISABLED': 'true'} | ends
    graph = f'folder s3://photos/tree index=index-m {AGAIN} ! shuffle seed=3 ! batch 16'
    process = subprocess.Popen([program, 'batch', graph, '--step', '40000', '--out', 'batch.npz'], env=env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    check(process.returncode == 0 and usage.ru_maxrss < 500 << 10, f'a million files: {usage.ru_maxrss >> 10} MiB')
    behave()
    client.put_object(Bucket='photos', Key='tree/Z/1.png', Body=b'other')
    fails('a file that changed after it was listed', 'tree/Z/1.png: has changed since it was listed', run_source(there, ends))
    client.delete_object(Bucket='photos', Key='tree/Z/1.png')
    fails('a file that was removed after it was listed', 'it was there when it was listed', run_source(there, ends))
    os.rename('www/tree/Z/1.png', 'one.png')
    compare('folder, s3, listed anew', here, f'{there} relist=true', ends)
    os.rename('one.png', 'www/tree/Z/1.png')
    fails('a folder without a key', 'holds no folders', run_source('folder s3://photos/nothing', ends))
    fails('a bucket that is not there', '404', run_source('folder s3://elsewhere/tree', ends))


def check_example(client, ends):
    """The graph of examples/ for archives in a bucket: it trains, and its second run, which the cache answers, is the same."""
    draw = random.Random(5)

    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))

    for shard in range(3):
        with tarfile.open(f'shown-{shard}.tar', 'w') as tar:
            for i in range(20):
                rows = b''.join(b'\0' + draw.randbytes(72 * 3) for _ in range(72))
                png = (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 72, 72, 8, 2, 0, 0, 0)) +
                       chunk(b'IDAT', zlib.compress(rows, 1)) + chunk(b'IEND', b''))
                for ext, data in (('png', png), ('cls', str(i % 10).encode())):
                    member = tarfile.TarInfo(f'{shard}_{i:05d}.{ext}')
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        client.upload_file(f'shown-{shard}.tar', 'photos', f'shown-{shard}.tar')
    graph = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'examples', 'bucket.mr')
    ledgers = []
    for n in range(2):
        command = [program, 'train', '--graph', graph, '--run-dir', f'shown-{n}', '--epochs', '2', 'data=s3://photos/shown-{0..1}.tar',
                   'held=s3://photos/shown-2.tar', 'picture=png', 'batch=8', 'layers=1', 'embed=24', 'mlp=24', 'cache=cache-shown',
                   'data.cache-size=50MB', 'held.cache-size=50MB', 'data.index=index-shown', 'held.index=index-shown']
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ) | ends, check=False)
        check(done.returncode == 0 and 'Validation after epoch 2' in done.stdout + done.stderr,
              'examples/bucket.mr' + ('' if done.returncode == 0 else f': {done.stderr[-700:]}'))
        ledgers += [line for line in (done.stdout + done.stderr).splitlines() if line.startswith('ledger ')]
    check(len(ledgers) == 2 and ledgers[0] == ledgers[1], 'examples/bucket.mr, from the cache')


def same(name, expected, outcome):
    ledger, text = outcome
    check(expected and ledger == expected, name + ('' if ledger == expected else f': {text[-700:]}'))


def fails(name, piece, outcome):
    ledger, text = outcome
    lines = [line for line in text.splitlines() if piece in line]
    check(ledger is None and len(lines) == 1, name + ('' if ledger is None and lines else f': want "{piece}", got {text[-700:]}'))


def recognised(path, piece, variables=None):
    """inspect says what lies at a URL that names no file, as train does before it chooses a graph."""
    env = {k: v for k, v in os.environ.items() if not k.startswith('AWS_')} | {'HOME': folder, 'AWS_EC2_METADATA_DISABLED': 'true'}
    done = subprocess.run([program, 'inspect', path], env=env | (variables or {}), capture_output=True, text=True, timeout=300)
    check(piece in done.stdout + done.stderr, f'{path}: {piece}' + ('' if piece in done.stdout else f': {done.stdout}{done.stderr}'))


def behave(trouble=0, lie=None, upstream=None, signed=False):
    Proxy.trouble, Proxy.lie, Proxy.signed = trouble, lie, signed
    if upstream:
        Proxy.upstream = upstream


stores_data.make(seed)
names = 'p-{000..%03d}.tar' % (SHARDS - 1)
nginx, plain, tls = start_nginx()
try:
    local = run(f'www/{names}')[0]
    assert local, run(f'www/{names}')[1]
    whole = contents(f'www/{names}')
    assert len(whole) > 1000000
    proxy = serve(Proxy)
    through = f'http://127.0.0.1:{proxy}'

    same('nginx', local, run(f'http://127.0.0.1:{plain}/{names}'))
    same('nginx, https with HTTP/2', local, run(f'https://localhost:{tls}/{names}', '', {'SSL_CERT_FILE': f'{folder}/cert.pem'}))
    same('a redirect of http', local, run(f'http://127.0.0.1:{plain}/clear/{names}'))
    fails('a redirect from https to http', 'leads from https to http', run(f'https://localhost:{tls}/clear/{names}', '', {'SSL_CERT_FILE': f'{folder}/cert.pem'}))
    check_astray(names, local, plain)
    fails('a certificate that nobody signed', 'certificate', run(f'https://localhost:{tls}/{names}'))
    same('no_proxy', local, run(f'http://127.0.0.1:{plain}/{names}', '', {'no_proxy': '*', 'http_proxy': 'http://127.0.0.1:1'}))
    same('file://', local, run(f'file://{folder}/www/{names}'))
    fails('a missing object', '404', run(f'http://127.0.0.1:{plain}/none.tar'))
    fails('a server without ranges', 'ignores ranges', run(f'http://127.0.0.1:{plain}/plain/{names}'))

    # Troubles that pass.
    behave(upstream=('127.0.0.1', plain))
    for trouble, settings in ((10, ''), (25, 'ahead=1048576 connections=4'), (10, 'cache=cache-a cache-size=2MB cache-block=65536')):
        behave(trouble)
        same(f'{trouble} % troubles {settings}', local, run(f'{through}/{names}', settings))
        check(contents(f'{through}/{names}', settings) == whole, f'{trouble} % troubles {settings}: the bytes')
    for name, settings in (('{a,b}.bin', 'pack=reset eos=7'), ('m.bin', 'pack=whole'), ('m.bin::a.bin', 'pack=stream')):
        for memory in ('', 'memory=0', 'memory=0 cache=cache-t cache-size=40kB cache-block=4096'):
            way = {'source': 'tokens', 'fields': f'length=33 {settings}', 'index': False}
            expected = run('::'.join(f'www/{n}' for n in name.split('::')), memory.split(' cache')[0], **way)[0]
            same(f'tokens {name} {settings} {memory}', expected,
                 run('::'.join(f'{through}/{n}' for n in name.split('::')), memory, **way))
    behave(10)
    check_arrays(f'{through}/arrays')
    for name in ('csv', 'jsonl'):
        here = f'folder www/tree list=www/tree/list.{name}'
        compare(f'folder, http, {name}', here, f'folder list={through}/tree/list.{name} {AGAIN} index=index-h')
        compare(f'folder, http, {name} here', here, f'folder {through}/tree list=www/tree/list.{name} {AGAIN} index=index-h')
    fails('a web server without a list', 'does not list its files', run_source(f'folder {through}/tree'))
    # Lies.
    for lie, piece in (('short', 'fewer bytes'), ('whole', 'ignores ranges'), ('range', 'Content-Range'),
                       ('skewed', 'RequestTimeTooSkewed; the clocks'), ('archived', 'InvalidObjectState; it is archived')):
        behave(0, lie)
        fails(f'a server that lies: {lie}', piece, run(f'{through}/{names}'))
    behave(0, 'size')
    ledger, text = run(f'{through}/{names}')
    check(ledger is None and sum('p-00' in line for line in text.splitlines()) == 1, 'a server that lies: size')
    behave()

    # Shards that are compressed as a whole are read once, and decompressed beside their indexes.
    mds = {'source': 'mds', 'fields': 'fields=data,id'}
    samples = run('www/raw', **mds)[0]
    behave(10)
    same('mds', samples, run(f'{through}/raw', **mds))
    same('mds, compressed', samples, run(f'{through}/packed', 'cache=cache-m', **mds))
    same('mds, compressed, once more', samples, run(f'{through}/packed', 'cache=cache-m', **mds))
    behave()

    recognised(f'http://127.0.0.1:{plain}/packed/', 'shards of MosaicML Streaming')
    recognised(f'http://127.0.0.1:{plain}/arrays', '.npy arrays')
    recognised(f'http://127.0.0.1:{plain}/tree', 'neither its name nor what the server has there says what it is')

    # The cache: whole, killed, shared.
    cache = 'cache=cache-b cache-size=1GB cache-block=65536'
    process, _ = run(f'{through}/{names}', cache, start=True)
    while Proxy.requests and not any(f.endswith('.object') for _, _, fs in os.walk('cache-b') for f in fs) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    two = [run(f'{through}/{names}', cache, start=True) for _ in range(2)]
    for process, ledger in two:
        process.communicate(timeout=300)
        check(process.returncode == 0 and open(ledger).read() == local, 'two runs at once, behind a killed one')
    check(contents(f'{through}/{names}', cache) == whole, 'the bytes of a cache that two runs have filled')
    before = Proxy.requests
    same('a cache that holds all', local, run(f'{through}/{names}', cache))
    check(Proxy.requests - before == SHARDS, f'only identities are asked for: {Proxy.requests - before} requests')
    with open(f'www/p-001.tar', 'ab') as shard:
        shard.write(bytes(10240))
    os.utime('www/p-001.tar', (1, 1))
    same('a changed object is another object', local, run(f'{through}/{names}', cache))

    # A bucket.
    moto = ThreadedMotoServer(ip_address='127.0.0.1', port=0)
    moto.start()
    upstream = moto.get_host_and_port()
    client = boto3.client('s3', endpoint_url='http://%s:%d' % upstream, region_name=REGION, aws_access_key_id=KEY,
                          aws_secret_access_key=SECRET)
    client.create_bucket(Bucket='photos', CreateBucketConfiguration={'LocationConstraint': REGION})
    prefix = 'a b/ü+p=&?#%20'
    for shard in range(SHARDS):
        client.upload_file(f'www/p-{shard:03d}.tar', 'photos', f'{prefix}/../p-{shard:03d}.tar',
                           ExtraArgs={'ACL': 'public-read'})
    bucket, ends = f's3://photos/{prefix}/../{names}', {'AWS_ENDPOINT_URL': through, 'AWS_REGION': REGION}
    keys = {'AWS_ACCESS_KEY_ID': KEY, 'AWS_SECRET_ACCESS_KEY': SECRET}
    behave(10, upstream=upstream, signed=True)
    same('s3, credentials of the environment', local, run(bucket, '', ends | keys))
    check(contents(bucket, '', ends | keys) == whole, 's3: the bytes')
    same('s3, a session token', local, run(bucket, '', ends | keys | {'AWS_SESSION_TOKEN': TOKEN}))
    with open('credentials', 'w') as f:
        f.write(f'[default]\naws_access_key_id = no\naws_secret_access_key = no\n[work]\naws_access_key_id = {KEY}\n'
                f'aws_secret_access_key = {SECRET}\n')
    with open('config', 'w') as f:
        f.write(f'[profile work]\nregion = {REGION}\n')
    profile = {'AWS_SHARED_CREDENTIALS_FILE': 'credentials', 'AWS_CONFIG_FILE': 'config', 'AWS_PROFILE': 'work'}
    same('s3, a profile, and its region', local, run(bucket, f'endpoint={through}', profile))
    metadata = {'AWS_EC2_METADATA_DISABLED': 'false', 'AWS_EC2_METADATA_SERVICE_ENDPOINT': f'http://127.0.0.1:{serve(Metadata)}'}
    same("s3, the machine's metadata", local, run(bucket, '', ends | metadata))
    check(Proxy.wrong_signatures == 0, f'{Proxy.wrong_signatures} requests are signed as botocore does not')
    fails('s3 without credentials', 'no credentials', run(bucket, '', ends))
    before = Proxy.wrong_signatures
    same('s3, anonymous', local, run(bucket, 'anonymous', ends))
    check(Proxy.wrong_signatures > before, 'anonymous requests are not signed')
    same('s3, a cache', local, run(bucket, 'cache=cache-c cache-size=1MB cache-block=65536', ends | keys))
    for name in sorted(os.listdir('www/packed')):
        client.upload_file(f'www/packed/{name}', 'photos', f'packed/{name}')
    same('s3, mds, compressed', samples, run('s3://photos/packed', '', ends | keys, **mds))
    for name in sorted(os.listdir('www/arrays')):
        client.upload_file(f'www/arrays/{name}', 'photos', f'arrays/{name}')
    check_arrays('s3://photos/arrays', ends | keys)
    for shard in range(SHARDS):
        client.upload_file(f'www/p-{shard:03d}.tar', 'photos', f'tars/val-{shard}.tar' if shard else 'tars/train-0.tar')
    for path in ('train/ant/0.png', 'train/bee/0.png', 'val/ant/1.png', 'val/bee/1.png'):
        client.put_object(Bucket='photos', Key=f'parts/{path}', Body=b'no picture')
    behave(0, upstream=upstream)
    recognised('s3://photos/packed', 'shards of MosaicML Streaming', ends | keys)
    recognised('s3://photos/arrays', '.npy arrays', ends | keys)
    recognised('s3://photos/tars', 'for validation: s3://photos/tars/val-{1..2}.tar', ends | keys)
    recognised('s3://photos/parts', 'read by: folder path=$data/train, with data=s3://photos/parts', ends | keys)
    behave(10, upstream=upstream, signed=True)
    check_listings(client, upstream, through, ends | keys)
    behave()
    check_example(client, ends | keys)
    moto.stop()
finally:
    nginx.kill()
print(f'{len(failures)} failures')
sys.exit(bool(failures))
