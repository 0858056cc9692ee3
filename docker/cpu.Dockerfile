# The server on a CPU. Not built in CI. From the root of the repository:
#   docker build -f docker/cpu.Dockerfile -t antiphon:cpu .
FROM python:3.12-slim

RUN useradd --create-home antiphon && mkdir -p /models && chown antiphon /models
WORKDIR /app

# torch first: it changes least and weighs most.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch==2.13.0
COPY pyproject.toml README.md LICENSE ./
COPY antiphon antiphon
COPY asr asr
COPY engines engines
COPY protocols protocols
COPY streams streams
COPY tts tts
COPY vlm vlm
# The extra brings piper-tts, which is GPL-3.0: mind it if you pass the image on.
RUN pip install --no-cache-dir ".[piper]"

USER antiphon
# Models are fetched at the first start and kept in this volume.
ENV ANTIPHON_CACHE_DIR=/models ANTIPHON_SERVER__HOST=0.0.0.0
VOLUME /models
EXPOSE 8000 50051
HEALTHCHECK --start-period=180s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
# Binding all addresses needs a key: see compose.yaml.
CMD ["antiphon", "serve"]
