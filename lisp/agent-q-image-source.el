;;; agent-q-image-source.el --- Places of definitions, as files and lines  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An image tells where a definition is by a file name of its own machine and a
;; character position.  Here these become files and lines of this Emacs, with
;; the source text where it is wanted.  What the user has in a buffer is read
;; there, unsaved changes included.

;;; Code:

(require 'cl-lib)
(require 'lisp-mode)
(require 'subr-x)
(require 'agent-q-image-connection)

(defconst agent-q-image-source--seconds 0.3
  "How long a reply's files may be read.  Later places come without a line.")

(defconst agent-q-image-source--largest-file 5000000
  "The size in bytes of the largest file that is read.")

(defconst agent-q-image-source--longest-text 6000
  "How many characters of one definition are quoted.")

(defconst agent-q-image-source--none "agent-q"
  "What images know as the buffer of definitions that compile_form compiled.")

(defvar agent-q-image-source--buffers nil
  "Buffers with the text of files, by file name, while a reply is resolved.")

(defvar agent-q-image-source--end nil
  "When to stop reading files for the reply that is resolved.")

(defun agent-q-image-source-resolve (connection reply)
  "Return REPLY of CONNECTION's image with its places resolved.
Every property :location in it becomes :where, \"file:line\", and
:text, the source, for those that want it.  Other replies, and those
that can't be understood, are returned as they are."
  (if (not (and (string-match-p "\\`(:outcome :\\(?:returned\\|error\\|cancelled\\)\\_>" reply)
                (string-match-p ":location (" reply)))
      reply
    (let ((agent-q-image-source--buffers nil)
          (agent-q-image-source--end (+ (float-time) agent-q-image-source--seconds)))
      (unwind-protect
          (condition-case err
              (let ((print-escape-newlines nil)
                    (print-length nil)
                    (print-level nil)
                    (print-circle nil))
                (prin1-to-string
                 (agent-q-image-source--walk connection (car (read-from-string reply)))))
            (error (message "agent-q: places were not resolved: %s" (error-message-string err))
                   reply))
        (pcase-dolist (`(,_ . ,buffer) agent-q-image-source--buffers)
          (when (and (buffer-live-p buffer)
                     (string-prefix-p " *agent-q-source*" (buffer-name buffer)))
            (kill-buffer buffer)))))))

(defun agent-q-image-source--walk (connection datum)
  "Return DATUM, part of a reply over CONNECTION, with its places resolved."
  (cond ((not (consp datum)) datum)
        ((not (keywordp (car datum)))
         (mapcar (lambda (element) (agent-q-image-source--walk connection element)) datum))
        (t (cl-loop for (key value) on datum by #'cddr
                    append (if (and (eq key :location) (consp value))
                               (agent-q-image-source--place connection value)
                             (list key (agent-q-image-source--walk connection value)))))))

(defun agent-q-image-source--place (connection location)
  "Return properties :where and :text for LOCATION, in words of CONNECTION's image."
  (let* ((theirs (plist-get location :file))
         (file (and theirs (agent-q-image--ask connection :from-lisp theirs)))
         (buffer (agent-q-image-source--buffer (plist-get location :buffer) file
                                               (plist-get location :wanted)))
         (name (or file
                   (pcase (plist-get location :buffer)
                     ((pred null) nil)
                     ((pred (equal agent-q-image-source--none)) "no file, by compile_form")
                     (name (format "buffer %s" name))))))
    (if (null buffer)
        (list :where (and name (format "%s%s" name
                                       (if (plist-get location :line)
                                           (format ":%d" (plist-get location :line))
                                         "")))
              :missing (and file (plist-get location :wanted)
                            (not (agent-q-image-source--readable-p file)))
              :text (and (plist-get location :wanted)
                         (or (plist-get location :source)
                             (agent-q-image-source--snippet location))))
      (with-current-buffer buffer
        (save-excursion
          (save-restriction
            (widen)
            (if (agent-q-image-source--go location)
                (list :where (format "%s:%d" name (line-number-at-pos))
                      :text (and (plist-get location :wanted)
                                 (agent-q-image-source--definition)))
              (list :where name))))))))

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
  (or (and name (not (equal name agent-q-image-source--none)) (get-buffer name))
      (cdr (assoc file agent-q-image-source--buffers))
      (and file
           (let ((found (agent-q-image-source--look-up file wanted)))
             (if (bufferp found)
                 found
               (and found
                    (or (find-buffer-visiting file)
                        (and (< (float-time) agent-q-image-source--end)
                             (file-regular-p file)
                             (< (file-attribute-size (file-attributes file))
                                agent-q-image-source--largest-file)
                             (agent-q-image-source--read file)))))))))

(defun agent-q-image-source--look-up (file wanted)
  "Return the buffer that visits FILE by this name, else whether it can be read.
On another machine it can only when its text is WANTED.  This is quick,
as the implementation's own sources are often not there."
  (let* ((remote (file-remote-p file))
         ;; All that is asked here looks in it, each time twice.
         (file-name-handler-alist (and (or remote (string-prefix-p "/:" file))
                                       file-name-handler-alist)))
    (or (get-file-buffer file)
        (and (or wanted (not remote))
             (file-readable-p file)))))

(defun agent-q-image-source--read (file)
  "Return a new buffer with the text of FILE, kept until the reply is resolved."
  (let ((buffer (generate-new-buffer " *agent-q-source*" t)))
    (push (cons file buffer) agent-q-image-source--buffers)
    (with-current-buffer buffer
      (let ((inhibit-message t))
        (insert-file-contents file))
      buffer)))

(defun agent-q-image-source--go (location)
  "Go to LOCATION in the current buffer; return nil when it isn't found.
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
    (or (and (plist-get location :name)
             (agent-q-image-source--go-definition location))
        position line
        (not (plist-get location :name)))))

(defun agent-q-image-source--go-definition (location)
  "Go to the definition that LOCATION names; return nil when there is none.
Some implementations have rough positions, or none."
  (let ((definition (agent-q-image-source--definition-regexp location))
        (mentions (plist-get location :mentions))
        (case-fold-search t)
        (start (point))
        (found nil))
    (if (agent-q-image-source--defines-p definition mentions)
        start
      (goto-char (point-min))
      (while (and (not found) (re-search-forward definition nil t))
        (goto-char (match-beginning 0))
        (if (agent-q-image-source--defines-p definition mentions)
            (setq found (point))
          (forward-line)))
      (goto-char (or found start))
      found)))

(defun agent-q-image-source--definition-regexp (location)
  "Return a regexp of how a definition of what LOCATION names begins."
  (concat "^[ \t]*(\\(?:[^][ ();\"]*:\\)?"
          (or (plist-get location :definer) "def[^][ ();\"]*")
          "[ \t\n]+(?"
          (replace-regexp-in-string " " "[ \t\n]+"
                                    (regexp-quote (plist-get location :name)) t t)
          ;; A primary method has no qualifier after its name.
          (if (and (plist-get location :definer)
                   (not (cl-find ?: (plist-get location :mentions)
                                 :key (lambda (mention) (aref mention 0)))))
              ")?[ \t\n]*("
            "[] \t\n()]")))

(defun agent-q-image-source--defines-p (definition mentions)
  "Whether the regexp DEFINITION matches at point, and the head has MENTIONS."
  (and (save-excursion
         (beginning-of-line)
         (looking-at-p definition))
       (let ((end (save-excursion
                    (forward-line)
                    (if (re-search-forward "^(" (min (point-max) (+ (point) 400)) 'move)
                        (match-beginning 0)
                      (point)))))
         (cl-every (lambda (mention)
                     (save-excursion
                       (re-search-forward
                        (concat "[ (']" (regexp-quote mention) "[] \t\n()]") end t)))
                   mentions))))

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
      (unless (and (bolp) (eq (char-after) ?\())
        (end-of-line)
        (unless (re-search-backward "^(" nil t)
          (goto-char here)))
      (let* ((start (point))
             (end (or (ignore-errors (scan-sexps start 1))
                      (progn (goto-char start) (line-end-position)))))
        (agent-q-image-source--cut start end)))))

(defun agent-q-image-source--cut (start end)
  "Return the text from START to END, or its beginning and how much is missing."
  (if (<= (- end start) agent-q-image-source--longest-text)
      (buffer-substring-no-properties start end)
    (goto-char (+ start agent-q-image-source--longest-text))
    (beginning-of-line)
    (format "%s[%d more lines, from line %d on]"
            (buffer-substring-no-properties start (point))
            (count-lines (point) end)
            (line-number-at-pos))))

(provide 'agent-q-image-source)
;;; agent-q-image-source.el ends here
