# The book as a container: JupyterLab with every chapter, ready to run.
#   docker build -t memory-book .
#   docker run --rm -p 8888:8888 memory-book      then open the address that it prints
# For a JupyterHub or Binder, let repo2docker build an image from .binder/ instead.
FROM python:3.11-slim-bookworm

ENV OMP_NUM_THREADS=1 PYTHONUTF8=1
RUN useradd --create-home --uid 1000 reader
WORKDIR /home/reader/book

# What seldom changes comes first, so that an edited chapter needs no new installation.
COPY requirements.txt ./
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -r requirements.txt

COPY --chown=reader . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e . \
    && chown reader .

USER 1000
RUN python -c 'import matplotlib.font_manager'
EXPOSE 8888
CMD ["jupyter-lab", "--ip=0.0.0.0", "--no-browser", "chapters"]
