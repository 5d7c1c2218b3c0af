;;; agent-q-image-source.el --- Places of definitions, as files and lines  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An image says where a definition is by a file name of its own machine and a
;; character position.  Here these become files and lines of this Emacs, with
;; the source text where it is wanted.  What the user has in a buffer is read
;; there, unsaved changes included.

;;; Code:

(require 'cl-lib)
(require 'lisp-mode)
(require 'subr-x)
(require 'agent-q-image-compiled)
(require 'agent-q-image-connection)
(require 'agent-q-image-definition)
(require 'agent-q-image-feature)
(require 'agent-q-image-file)
(require 'agent-q-image-reply)

(defconst agent-q-image-source--seconds 0.3
  "How long a reply's files may be read.  Later places come without a line.")

(defconst agent-q-image-source--largest-file 5000000
  "The size in bytes of the largest file that is read.")

(defconst agent-q-image-source--longest-class 1000
  "Most characters of a class that are quoted for one of its accessors.")

(defconst agent-q-image-source--longest-alone 15000
  "Most characters of a definition that is the only one quoted.
That is nearly all that a model is sent of a result.")

(defconst agent-q-image-source--longest-of-several 6000
  "Most characters of each definition that is quoted, where there are several.")

(defvar agent-q-image-source--longest-text agent-q-image-source--longest-alone
  "Most characters of a definition in the reply that is resolved.")

(defconst agent-q-image-source--none (list "agent-q" agent-q-image-compiled-name)
  "What images know as the buffers of definitions that compile_form compiled.
The first is for those that replace what a file has.")

(defvar agent-q-image-source--buffers nil
  "Buffers with the text of files, by file name, while a reply is resolved.")

(defvar agent-q-image-source--end nil
  "When to stop reading files for the reply that is resolved.")

(defun agent-q-image-source-resolve (connection reply &optional owner)
  "Return REPLY of CONNECTION's image to the chat OWNER with its places resolved.
Every property :location in it becomes :where, \"file:line\", and
:text, the source, for those that want it.  Other replies, and those
that can't be understood, are returned as they are."
  (if (not (and (string-match-p "\\`(:outcome :\\(?:returned\\|error\\|cancelled\\)\\_>" reply)
                (string-match-p ":location (" reply)))
      reply
    (let ((agent-q-image-source--buffers nil)
          (agent-q-image-feature-list (agent-q-image-features connection))
          (agent-q-image-source--longest-text
           (if (string-match-p ":wanted t\\_>[^z-a]*:wanted t\\_>" reply)
               agent-q-image-source--longest-of-several
             agent-q-image-source--longest-alone))
          (agent-q-image-source--end (+ (float-time) agent-q-image-source--seconds)))
      (unwind-protect
          (condition-case err
              (agent-q-image-file-with-owner owner
                (agent-q-image-reply-edit
                 reply :location
                 (lambda (location) (agent-q-image-source--place connection location))))
            (error (message "agent-q: places were not resolved: %s" (error-message-string err))
                   reply))
        (pcase-dolist (`(,_ . ,buffer) agent-q-image-source--buffers)
          (when (and (buffer-live-p buffer)
                     (string-prefix-p " *agent-q-source*" (buffer-name buffer)))
            (kill-buffer buffer)))))))

(defun agent-q-image-source--place (connection location)
  "Return properties :where and :text for LOCATION, in words of CONNECTION's image."
  (if (member (plist-get location :buffer) agent-q-image-source--none)
      (agent-q-image-source--compiled connection location)
    (agent-q-image-source--found connection location)))

(defun agent-q-image-source--compiled (connection location)
  "Return properties for LOCATION of something that compile_form compiled.
That is not what a file has, even if LOCATION, in words of
CONNECTION's image, names the file whose definition it replaced."
  (let* ((file (and (plist-get location :file) (plist-get location :name)
                    (agent-q-image-source--found
                     connection
                     (append '(:buffer nil :snippet nil :loaded nil :wanted t) location))))
         (place (and file (not (plist-get file :lost)) (plist-get file :where)))
         (text (or (plist-get location :compiled)
                   (agent-q-image-source--snippet location))))
    (append
     (if (and place (agent-q-image-source--same-p text (plist-get file :text)))
         (list :where place :written t)
       (list :where "no file, by compile_form" :replaces place))
     (and (plist-get location :wanted) (list :text text)))))

(defun agent-q-image-source--same-p (one other)
  "Whether ONE and OTHER are the same text, but for white space."
  (and one other
       (equal (agent-q-image-source--plain one) (agent-q-image-source--plain other))))

(defun agent-q-image-source--found (connection location)
  "Return properties for LOCATION of something in a file or a buffer.
It is in words of CONNECTION's image.  Files of which nothing may be
shown unasked have a :withheld."
  (let* ((file (agent-q-image-source--file connection location))
         (objection (and file (agent-q-image-source--objection file location)))
         (buffer (unless objection
                   (agent-q-image-source--buffer (plist-get location :buffer) file
                                                 (plist-get location :wanted))))
         (name (or file
                   (plist-get location :file)
                   (and (plist-get location :buffer)
                        (format "buffer %s" (plist-get location :buffer)))))
         (place (and name (format "%s%s" name
                                  (if (plist-get location :line)
                                      (format ":%d" (plist-get location :line))
                                    "")))))
    (cond
     ((or objection
          ;; It may be about another file than the one of this name.
          (setq objection (and buffer (agent-q-image-source--objection-to buffer))))
      (list :where place :withheld (and (plist-get location :wanted) objection)))
     ((null buffer)
      (list :where place
            :missing (and (plist-get location :file)
                          ;; Another machine is only asked for a text that is wanted.
                          (or (plist-get location :wanted)
                              (and file (not (file-remote-p file))))
                          (not (and file (agent-q-image-source--readable-p file))))
            :text (and (plist-get location :wanted)
                       (or (plist-get location :source)
                           (agent-q-image-source--snippet location)))))
     (t
      (with-current-buffer buffer
        (save-excursion
          (save-restriction
            (widen)
            (agent-q-image-source--here location file name))))))))

(defun agent-q-image-source--objection (file location)
  "Return why the text of FILE may not be shown unasked, or nil.
Where LOCATION wants no text, only files that can be read are judged: the
implementation's own sources are often not there.  Another machine isn't asked."
  (and (or (plist-get location :wanted) (agent-q-image-source--readable-p file))
       (agent-q-image-file-objection file)))

(defun agent-q-image-source--objection-to (buffer)
  "Return why the text of BUFFER may not be shown unasked, or nil.
That depends on the file that it visits, as when it is read by name."
  (let ((visited (buffer-local-value 'buffer-file-name
                                     (or (buffer-base-buffer buffer) buffer))))
    (and visited
         (agent-q-image-file-objection
          (if (file-remote-p visited) visited (expand-file-name visited))))))

(defun agent-q-image-source--file (connection location)
  "Return the file of LOCATION, which is in words of CONNECTION's image, or nil.
For frames only a buffer is given.  What compile_file compiled has the
name of its file for that of a buffer when the user doesn't visit it."
  (let* ((file (plist-get location :file))
         (name (plist-get location :buffer))
         (buffer (and name (get-buffer name))))
    (cond (file (agent-q-image-file-here connection file))
          (buffer (buffer-file-name buffer))
          ((and name (string-prefix-p "/" name))
           (agent-q-image-file-here connection name)))))

(defun agent-q-image-source--here (location file name)
  "Return properties for LOCATION in the current buffer.
It has the text of FILE, if any, and NAME for the reader."
  (let ((trust (agent-q-image-source--trust location file)))
    (append
     (if (agent-q-image-source--go location trust)
         (list :where (format "%s:%d" name (line-number-at-pos))
               :text (and (plist-get location :wanted)
                          (agent-q-image-source--definition)))
       (list :where name :lost t))
     (cond ((and buffer-file-name (buffer-modified-p)) (list :unsaved t))
           ((if (plist-get location :loaded) (null trust)
              (agent-q-image-source--stale-p location))
            (list :changed t))))))

(defun agent-q-image-source--stale-p (location)
  "Whether the text from which LOCATION was compiled isn't around point any more.
That is known of what was compiled as a part of a file, as its text
comes with it: the beginning, or all when compile_file did it."
  (let* ((snippet (and (plist-get location :buffer)
                       (agent-q-image-source--bare-form
                        ;; What uses a name is no guess, however short.
                        (if (plist-get location :uses)
                            (plist-get location :snippet)
                          (agent-q-image-source--snippet location)))))
         (compiled (plist-get location :compiled))
         (whole (and snippet compiled
                     (<= (length compiled) agent-q-image-source--longest-text)
                     (agent-q-image-source--bare-form compiled))))
    (and snippet
         (not (string-search (if (and whole (string-search snippet whole)) whole snippet)
                             (agent-q-image-source--plain
                              (apply #'buffer-substring-no-properties
                                     (save-excursion (agent-q-image-source--bounds)))))))))

(defun agent-q-image-source--bare-form (text)
  "Return TEXT, if any, in plain white space, without feature expressions."
  (and text
       (replace-regexp-in-string "\\`\\(?:#[-+]\\(?:([^()]*)\\|[^] ()#;\"']+\\) ?\\)+" ""
                                 (agent-q-image-source--plain text))))

(defun agent-q-image-source--plain (text)
  "Return TEXT, if any, with plain white space."
  (and text (string-join (split-string text "[ \t\n]+" t) " ")))

(defun agent-q-image-source--snippet (location)
  "Return the snippet of LOCATION when the image took it from the source.
A guess of the client's is one line without an end."
  (let ((snippet (plist-get location :snippet)))
    (and snippet (string-match-p "[)\n]" snippet) snippet)))

(defun agent-q-image-source--readable-p (file)
  "Return non-nil when FILE can be read without waiting for another machine."
  (and (not (file-remote-p file)) (file-readable-p file)))

(defun agent-q-image-source--buffer (name file wanted)
  "Return a buffer with the text of the buffer NAME or of FILE, or nil.
Files that the user doesn't visit are read, those of other machines
only when the text is WANTED."
  (or (and name (null file) (get-buffer name))
      (cdr (assoc file agent-q-image-source--buffers))
      (and file
           (let ((found (agent-q-image-source--look-up file wanted)))
             (if (bufferp found)
                 found
               (and found
                    (or (agent-q-image-source--visiting file)
                        (and (< (float-time) agent-q-image-source--end)
                             (file-regular-p file)
                             (< (file-attribute-size (file-attributes file))
                                agent-q-image-source--largest-file)
                             (agent-q-image-source--read file)))))))))

(defun agent-q-image-source--visiting (file)
  "Return the buffer that visits FILE, unless the file on disk is newer than it."
  (let ((buffer (find-buffer-visiting file)))
    (and buffer (agent-q-image-source--current-p buffer) buffer)))

(defun agent-q-image-source--current-p (buffer)
  "Whether BUFFER has the text of its file, or that of the user's edits."
  (or (buffer-modified-p buffer)
      (file-remote-p (buffer-file-name buffer))
      (verify-visited-file-modtime buffer)))

(defun agent-q-image-source--look-up (file wanted)
  "Return the buffer that visits FILE by this name, else whether it can be read.
On another machine it can only when its text is WANTED.  This is quick,
as the implementation's own sources are often not there."
  (let* ((remote (file-remote-p file))
         ;; All that is asked here looks in it, each time twice.
         (file-name-handler-alist (and (or remote (string-prefix-p "/:" file))
                                       file-name-handler-alist)))
    (or (let ((buffer (get-file-buffer file)))
          (and buffer (agent-q-image-source--current-p buffer) buffer))
        (and (or wanted (not remote))
             (file-readable-p file)))))

(defun agent-q-image-source--read (file)
  "Return a new buffer with the text of FILE, kept until the reply is resolved.
Return nil where it can't be read."
  (let ((buffer (generate-new-buffer " *agent-q-source*" t)))
    (push (cons file buffer) agent-q-image-source--buffers)
    (with-current-buffer buffer
      (and (agent-q-image-file-insert file) buffer))))

(defun agent-q-image-source--go (location trust)
  "Go to LOCATION in the current buffer; return nil when it isn't found.
TRUST says what is known of the text, as in `agent-q-image-definition-go'.
Its snippet is searched for near the position: the text may have
changed since it was compiled."
  (let ((position (plist-get location :position))
        (line (plist-get location :line))
        (snippet (car (split-string (or (plist-get location :snippet) "") "\n"))))
    (goto-char (point-min))
    (cond (position (forward-char (min (max 0 (1- position)) (- (point-max) (point)))))
          (line (forward-line (1- line))))
    (unless (or (string-blank-p snippet)
                (looking-at-p (regexp-quote snippet)))
      (agent-q-image-source--go-nearest snippet))
    (skip-chars-forward " \t\n")
    (agent-q-image-definition-go location trust)))

(defun agent-q-image-source--trust (location file)
  "Return what is known of the text of FILE in the current buffer.
It is `full' when it is the one that the image has LOCATION from,
`some' when it may have changed within the second that it was loaded
in, and nil when it differs or nothing is known."
  (let ((loaded (plist-get location :loaded)))
    (and loaded file
         (not (and buffer-file-name (buffer-modified-p)))
         (eql loaded (agent-q-image-source--date file))
         (if (plist-get location :before) 'full 'some))))

(defconst agent-q-image-source--epoch 2208988800
  "The time from which Emacs counts seconds, as Common Lisp does.")

(defun agent-q-image-source--date (file)
  "Return when FILE was written last, in seconds as Common Lisp counts them."
  (unless (file-remote-p file)
    (let ((time (file-attribute-modification-time (file-attributes file))))
      (and time (+ agent-q-image-source--epoch (floor (float-time time)))))))

(defun agent-q-image-source--go-nearest (text)
  "Go to the start of the occurrence of TEXT that is nearest to point, if any."
  (let* ((case-fold-search t)
         (start (point))
         (after (and (search-forward text nil t) (match-beginning 0)))
         (before (progn (goto-char start) (and (search-backward text nil t) (point)))))
    (goto-char (cond ((and before after)
                      (if (< (- start before) (- after start)) before after))
                     (t (or before after start))))))

(defun agent-q-image-source--definition ()
  "Return the text of the top-level form around point."
  (with-syntax-table lisp-mode-syntax-table
    (let ((parse-sexp-ignore-comments t)
          (here (point)))
      (pcase-let ((`(,start ,end) (agent-q-image-source--bounds)))
        (or (agent-q-image-source--slot start end here)
            (agent-q-image-source--cut start end))))))

(defun agent-q-image-source--bounds ()
  "Return the start and the end of the top-level form around point."
  (with-syntax-table lisp-mode-syntax-table
    (let ((parse-sexp-ignore-comments t)
          (start (agent-q-image-definition-top-here)))
      (goto-char start)
      (list start
            (or (ignore-errors (scan-sexps start 1))
                (line-end-position))))))

(defun agent-q-image-source--slot (start end here)
  "Return the slot at HERE of the long class from START to END, or nil.
An accessor is defined there, and the other slots say nothing of it."
  (when (and (< start here end)
             (< agent-q-image-source--longest-class (- end start)))
    (goto-char start)
    (let* ((class (looking-at "(\\S-*\\_<def\\(?:class\\|ine-condition\\)\\_>.*"))
           (head (and class (match-string-no-properties 0)))
           ;; The slot is in the list of slots, which is in the class.
           (slot (nth 2 (nth 9 (parse-partial-sexp start (min end (1+ here))))))
           (slot-end (and class slot (ignore-errors (scan-sexps slot 1)))))
      (when slot-end
        (format "%s\n  ...\n%s%s\n  ..." head
                (make-string (progn (goto-char slot) (current-column)) ?\s)
                (buffer-substring-no-properties slot slot-end))))))

(defun agent-q-image-source--cut (start end)
  "Return the text from START to END, or its beginning and how much is missing."
  (if (<= (- end start) agent-q-image-source--longest-text)
      (buffer-substring-no-properties start end)
    (goto-char (+ start agent-q-image-source--longest-text))
    (beginning-of-line)
    (let ((lines (count-lines (point) end))
          (line (line-number-at-pos)))
      (format "%s[%d more lines; read_file with offset %d, limit %d shows them]"
              (buffer-substring-no-properties start (point)) lines line lines))))

(provide 'agent-q-image-source)
;;; agent-q-image-source.el ends here
