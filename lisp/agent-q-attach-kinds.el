;;; agent-q-attach-kinds.el --- What can be attached to a message  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The kinds of texts that can be attached, and how each is fetched: from Emacs, from Git, or
;; by a tool that looks into the image.  What is private is attached only when the user says
;; so.

;;; Code:

(require 'agent-q-activity)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-execute)
(require 'agent-q-image)
(require 'agent-q-image-history)
(require 'agent-q-json)
(require 'agent-q-markdown)
(require 'agent-q-project)
(require 'agent-q-provider)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Texts that go along with a message

;; A text that the user sends along with a message: what it is, where it is from, how much
;; of it is sent.  In the log it is a line under the message, which unfolds to the text.

(defcustom agent-q-context-max-size 50000
  "Maximum number of characters of one text that is attached to a message.
Longer texts are cut, and the log and the model say so.  All texts of a message
together have at most four times as many."
  :type 'natnum
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defface agent-q-mention '((t :inherit link :underline nil))
  "What is attached to a message, at the prompt and in the log."
  :group 'agent-q-faces)

(cl-defstruct (agent-q-attach-kinds-excerpt (:constructor agent-q-attach-kinds--excerpt-make) (:copier nil))
  "A text that is attached to a message.
NAME is what the user calls it, such as \"@file:src/bank.lisp\", and WHERE
says to the model where TEXT is from.  TOTAL is the number of characters that
there were before TEXT was cut, KEPT of those that are left.  VISIT is a function
that goes there, or nil.  PICTURE, or nil, has the bytes of a picture in base64;
TEXT then says what it is.  FOREIGN is non-nil for what a stranger wrote, such
as a server."
  name where text total kept visit picture foreign)

(defun agent-q-attach-kinds-excerpt-make (name where text &optional total visit foreign)
  "Return the excerpt of TEXT, which is cut where it is too long.
NAME, WHERE, TOTAL, VISIT and FOREIGN are as in `agent-q-attach-kinds-excerpt'."
  (let ((total (max (or total 0) (length text)))
        (most agent-q-context-max-size))
    (agent-q-attach-kinds--excerpt-make :name name :where where :total total :visit visit
                                        :foreign foreign
                                        :kept (min most (length text))
                                        :text (agent-q-attach-kinds--excerpt-cut text total most))))

(defun agent-q-attach-kinds--excerpt-cut (text total most)
  "Return the first MOST characters of TEXT, which is the beginning of TOTAL.
What is left out is said at the end."
  (let ((kept (min most (length text))))
    (agent-q-text-clean
     (if (< kept total)
         (format "%s\n... [%d more characters]" (substring text 0 kept) (- total kept))
       text))))

(defun agent-q-attach-kinds-excerpt-fit (excerpts)
  "Return EXCERPTS, each once, cut to what a message takes."
  (let ((left (* 4 agent-q-context-max-size)))
    (mapcar (lambda (excerpt)
              (let* ((text (agent-q-attach-kinds-excerpt-text excerpt))
                     (fits (<= (length text) left)))
                (prog1 (if fits
                           excerpt
                         (agent-q-attach-kinds--excerpt-make
                          :name (agent-q-attach-kinds-excerpt-name excerpt)
                          :where (agent-q-attach-kinds-excerpt-where excerpt)
                          :total (agent-q-attach-kinds-excerpt-total excerpt)
                          :visit (agent-q-attach-kinds-excerpt-visit excerpt)
                          :picture (agent-q-attach-kinds-excerpt-picture excerpt)
                          :foreign (agent-q-attach-kinds-excerpt-foreign excerpt)
                          :kept (min left (agent-q-attach-kinds-excerpt-kept excerpt))
                          :text (agent-q-attach-kinds--excerpt-cut text (agent-q-attach-kinds-excerpt-total excerpt) left)))
                  (setq left (max 0 (- left (length text)))))))
            (seq-uniq excerpts
                      (lambda (one other)
                        (and (equal (agent-q-attach-kinds-excerpt-where one) (agent-q-attach-kinds-excerpt-where other))
                             (equal (agent-q-attach-kinds-excerpt-text one)
                                    (agent-q-attach-kinds-excerpt-text other))))))))

(defun agent-q-attach-kinds-excerpt-pairs (excerpts)
  "Return EXCERPTS as `agent-q-attach-context-json' takes them."
  (mapcar (lambda (excerpt)
            (list (agent-q-attach-kinds-excerpt-where excerpt)
                  (agent-q-attach-kinds-excerpt-text excerpt)
                  (agent-q-attach-kinds-excerpt-picture excerpt)
                  (agent-q-attach-kinds-excerpt-foreign excerpt)))
          excerpts))

(defun agent-q-attach-kinds-excerpt-size (characters)
  "Return CHARACTERS, a number, as a short text."
  (if (< characters 1024)
      (format "%d B" characters)
    (file-size-human-readable characters nil " " "B")))

(defun agent-q-attach-kinds-excerpt-sizes (excerpt)
  "Return how long EXCERPT is, and of what it is the beginning."
  (let ((kept (agent-q-attach-kinds-excerpt-kept excerpt))
        (total (agent-q-attach-kinds-excerpt-total excerpt)))
    (if (< kept total)
        (format "first %s of %s" (agent-q-attach-kinds-excerpt-size kept) (agent-q-attach-kinds-excerpt-size total))
      (agent-q-attach-kinds-excerpt-size total))))

;;;;; In the log

(cl-defstruct (agent-q-attach-kinds-excerpt-line (:include agent-q-render-item)
                                                 (:constructor agent-q-attach-kinds--excerpt-make-line) (:copier nil))
  "The line of an excerpt in the log."
  excerpt)

(defun agent-q-attach-kinds--excerpt-draw (line)
  "Return the text of LINE."
  (let ((excerpt (agent-q-attach-kinds-excerpt-line-excerpt line)))
    (concat (propertize (concat "  " (agent-q-render-fold-sign line) " ") 'face 'agent-q-dim)
            (propertize (agent-q-text-visible-line (agent-q-attach-kinds-excerpt-name excerpt) 80)
                        'face 'agent-q-mention 'mouse-face 'highlight
                        'help-echo (agent-q-text-visible-line (agent-q-attach-kinds-excerpt-where excerpt)))
            (if (agent-q-attach-kinds-excerpt-picture excerpt)
                (agent-q-attach-kinds--picture-shown excerpt)
              (propertize (concat "  " (agent-q-attach-kinds-excerpt-sizes excerpt)) 'face 'agent-q-dim))
            (and (agent-q-render-item-expanded line)
                 (concat "\n" (agent-q-render-body (agent-q-attach-kinds-excerpt-text excerpt)
                                                   #'agent-q-text-visible 'face 'agent-q-dim))))))

(defun agent-q-attach-kinds-excerpt-show (excerpt)
  "Add a line for EXCERPT to the log of this chat."
  (agent-q-render-add-item
   (agent-q-attach-kinds--excerpt-make-line :draw #'agent-q-attach-kinds--excerpt-draw :excerpt excerpt :apart t)))

;;;; Pictures

;; A picture is attached as a text that says what it is, together with its bytes.  What a model
;; takes is for the core to say, by the bytes; whether the chat's model sees any, the facts know.

(defconst agent-q-attach-kinds--most-pictures 20
  "How many pictures a message may have.")

(defconst agent-q-attach-kinds--largest-picture (* 5 1024 1024)
  "Bytes of the largest picture that hosts take.")

(defconst agent-q-attach-kinds--most-picture-bytes (* 15 1024 1024)
  "Bytes that the pictures of a message may have together.")

(defconst agent-q-attach-kinds--picture-magic
  "\\`\\(?:\211PNG\r\n\032\n\\|\377\330\377\\|GIF8[79]a\\|RIFF\\(?:.\\|\n\\)\\{4\\}WEBP\\)"
  "Matches the first bytes of a picture.")

(defun agent-q-attach-kinds--picture-p (path)
  "Whether the file at PATH begins like a picture."
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (insert-file-contents-literally path nil 0 12)
    (let ((case-fold-search nil))
      (string-match-p agent-q-attach-kinds--picture-magic (buffer-string)))))

(defun agent-q-attach-kinds-picture-trouble (path)
  "Return why the file at PATH can't be attached as a picture, or nil."
  (or (agent-q-attach-kinds--file-trouble path)
      (and (not (agent-q-attach-kinds--picture-p path))
           "this is not a PNG, JPEG, GIF or WebP picture")))

(defun agent-q-attach-kinds--blind ()
  "Return why this chat's model takes no pictures, or nil if it may."
  (and (agent-q-provider-blind-p agent-q-session-provider)
       (format "%s takes no pictures; choose a model that does, or say in words what is to be seen"
               (agent-q-provider-label agent-q-session-provider))))

(defun agent-q-attach-kinds--picture-excerpt (path name)
  "Return the picture at PATH as the excerpt NAME, or a problem."
  (or (agent-q-attach-kinds--blind)
      (let ((bytes (file-attribute-size (file-attributes path))))
        (if (< agent-q-attach-kinds--largest-picture bytes)
            (format "the picture is too large to be sent (%s, of at most 5 MB); make it smaller, or cut out what matters"
                    (file-size-human-readable bytes nil " " "B"))
          (agent-q-attach-kinds-picture
           (with-temp-buffer
             (set-buffer-multibyte nil)
             (insert-file-contents-literally path)
             (base64-encode-region (point-min) (point-max) t)
             (string-to-multibyte (buffer-string)))
           (file-name-nondirectory path) name (concat "picture " (agent-q-attach-kinds-shown path))
           (lambda () (find-file-other-window path)))))))

(defun agent-q-attach-kinds-picture (data title name where &optional visit foreign)
  "Return the picture TITLE with the bytes DATA, in base64, as an excerpt.
NAME, WHERE, VISIT and FOREIGN are as in `agent-q-attach-kinds-excerpt'.
Return a sentence if it can't be sent."
  (or (agent-q-attach-kinds--blind)
      (condition-case failure
          (pcase-let* ((`(,width ,height) (progn (agent-q-events-ensure)
                                                 (agent-q-core-picture-size data)))
                       (bytes (/ (* 3 (length (string-trim-right data "=+"))) 4))
                       (text (format "[%s, %d × %d, %s]" title width height
                                     (file-size-human-readable bytes nil " " "B"))))
            (agent-q-attach-kinds--excerpt-make
             :name name :where where
             :text (agent-q-text-clean text) :total bytes :kept bytes :picture data
             :visit visit :foreign foreign))
        (agent-q-error (cadr failure)))))

(defun agent-q-attach-kinds-pictures-trouble (excerpts)
  "Return a list of why the pictures among EXCERPTS are too many, or nil."
  (let* ((pictures (seq-filter #'agent-q-attach-kinds-excerpt-picture excerpts))
         (bytes (apply #'+ (mapcar #'agent-q-attach-kinds-excerpt-total pictures))))
    (cond ((< agent-q-attach-kinds--most-pictures (length pictures))
           (list (format "a message takes %d pictures, and these are %d"
                         agent-q-attach-kinds--most-pictures (length pictures))))
          ((< agent-q-attach-kinds--most-picture-bytes bytes)
           (list (format "the pictures of a message may have 15 MB together, and these have %s"
                         (file-size-human-readable bytes nil " " "B")))))))

(defun agent-q-attach-kinds--picture-shown (excerpt)
  "Return how the picture of EXCERPT is shown in the log, behind its name."
  (let* ((text (concat "  " (agent-q-text-visible-line (agent-q-attach-kinds-excerpt-text excerpt) 120)))
         (image (and (display-images-p)
                     (ignore-errors
                       (create-image (base64-decode-string (agent-q-attach-kinds-excerpt-picture excerpt))
                                     nil t :max-height 120 :max-width 320)))))
    (concat (propertize text 'face 'agent-q-dim)
            (and image (concat "\n  " (propertize "[picture]" 'display image))))))

;;;; Files that are not sent unasked

;; What the user sends of a private file, by `agent-q-private-files', is sent only when they
;; say so, whichever command sends it.

(defun agent-q-attach-kinds-private-objection (file)
  "Return why FILE is private, a sentence, or nil when it isn't."
  (agent-q-events-ensure)
  (let ((globs (default-value 'agent-q-private-files))
        (remote (file-remote-p file)))
    (when-let ((objection
                (agent-q-core-quoting-objection
                 ;; Where it is doesn't matter: the user has chosen it.
                 (agent-q-json-serialize `((project_root . "/")
                                           (private_files . ,(if globs (vconcat globs) :null))))
                 (agent-q-text-clean (if remote (file-remote-p file 'localname) file))
                 (and remote t))))
      ;; The core names files from that root on.
      (replace-regexp-in-string "\\`'\\([^/]\\)" "'/\\1" objection))))

(defun agent-q-attach-kinds-private-allowed-p (file)
  "Whether text of FILE may be sent; if it is private, the user is asked.
FILE may be nil, for text of no file."
  (let ((objection (and file (agent-q-attach-kinds-private-objection file))))
    (or (null objection)
        (y-or-n-p (format "%s  Send its text to the model? "
                          (agent-q-text-visible-line objection))))))

;;;; Differences that Git knows of

;; What has changed in a working tree, as a text for a model, without private files.  Git is
;; run beside Emacs, and nothing that a repository names as a program is run by it.

(defconst agent-q-attach-kinds--git-most 400000
  "Most characters of a difference that are read.")

(defconst agent-q-attach-kinds--git-seconds 30
  "Seconds that Git may take.")

(defun agent-q-attach-kinds--git-start (directory arguments function)
  "Run Git with ARGUMENTS in DIRECTORY; FUNCTION gets its end and its output.
The end is t, or a sentence on what went wrong."
  (let* ((buffer (generate-new-buffer " *agent-q git*"))
         (default-directory directory)
         (process-environment (append '("GIT_OPTIONAL_LOCKS=0" "GIT_TERMINAL_PROMPT=0" "LC_ALL=C.UTF-8")
                                      process-environment))
         (timer nil)
         (process
          (make-process
           :name "agent-q-git" :buffer buffer :noquery t :connection-type 'pipe
           :coding 'utf-8-unix
           :command `("git" "-c" "safe.bareRepository=explicit" "-c" "core.fsmonitor=false"
                      "-c" "core.quotePath=false" ,@arguments)
           :sentinel
           (lambda (process _event)
             (unless (process-live-p process)
               (when timer (cancel-timer timer))
               (let ((text (with-current-buffer buffer (buffer-string)))
                     (ended (eq 'exit (process-status process))))
                 (kill-buffer buffer)
                 (funcall function
                          (cond ((process-get process 'agent-q-enough) t)
                                ((process-get process 'agent-q-late)
                                 (format "Git took more than %d s" agent-q-attach-kinds--git-seconds))
                                ((and ended (zerop (process-exit-status process))) t)
                                (t (agent-q-attach-kinds--git-complaint text)))
                          text)))))))
    (set-process-filter process #'agent-q-attach-kinds--git-read)
    (setq timer (run-at-time agent-q-attach-kinds--git-seconds nil
                             (lambda ()
                               (when (process-live-p process)
                                 (process-put process 'agent-q-late t)
                                 (kill-process process)))))
    process))

(defun agent-q-attach-kinds--git-read (process text)
  "Keep TEXT of PROCESS, which ends when there is enough of it."
  (when (buffer-live-p (process-buffer process))
    (with-current-buffer (process-buffer process)
      (goto-char (point-max))
      (insert text)
      (when (and (< agent-q-attach-kinds--git-most (buffer-size)) (process-live-p process))
        (process-put process 'agent-q-enough t)
        (kill-process process)))))

(defun agent-q-attach-kinds--git-complaint (text)
  "Return what Git said in TEXT as a short sentence."
  (let ((line (car (last (split-string text "\n" t)))))
    (if (string-match-p "not a git repository" text)
        "This is not a Git repository"
      (concat "Git failed: " (or line "without a word")))))

(defun agent-q-attach-kinds-git-diff (directory arguments paths function)
  "Have FUNCTION called with what has changed in the working tree at DIRECTORY.
ARGUMENTS are those of \"git diff\", such as \"HEAD\" or \"--cached\", and PATHS
those it is limited to, or nil.  FUNCTION gets the text, \"\" when nothing has
changed, and the private files that were left out; or nil and a sentence."
  (cond
   ((not (executable-find "git")) (funcall function nil "Git is not installed"))
   ((file-remote-p directory) (funcall function nil "This is on another machine"))
   (t
    (agent-q-attach-kinds--git-start
     directory `("diff" "--name-only" "-z" "--no-renames" ,@arguments "--" ,@paths)
     (lambda (end names)
       (if (not (eq end t))
           (funcall function nil end)
         (agent-q-attach-kinds--git-without-private directory arguments paths
                                                    (split-string names "\0" t) function)))))))

(defun agent-q-attach-kinds--git-without-private (directory arguments paths names function)
  "Finish `agent-q-attach-kinds-git-diff' of NAMES, the files that changed.
DIRECTORY, ARGUMENTS, PATHS and FUNCTION are as there."
  (agent-q-attach-kinds--git-start
   directory '("rev-parse" "--show-toplevel")
   (lambda (end root)
     (if (not (eq end t))
         (funcall function nil end)
       (let* ((root (string-remove-suffix "\n" root))
              (private (seq-filter (lambda (name)
                                     (agent-q-attach-kinds-private-objection (expand-file-name name root)))
                                   names)))
         (if (null (seq-difference names private))
             (funcall function "" private)
           (agent-q-attach-kinds--git-start
            directory
            `("diff" "--no-ext-diff" "--no-textconv" "--no-color" "--no-renames" ,@arguments "--"
              ,@(or paths '(":/"))
              ,@(mapcar (lambda (name) (concat ":(top,exclude,literal)" name)) private))
            (lambda (end text)
              (if (eq end t)
                  (funcall function text private)
                (funcall function nil end))))))))))

(defun agent-q-attach-kinds-git-subjects (directory function)
  "Have FUNCTION called with the subjects of the latest commits at DIRECTORY.
They are the lines of a text, which is empty when there are none."
  (agent-q-attach-kinds--git-start directory '("log" "-10" "--no-color" "--format=%s")
                                   (lambda (end text)
                                     (funcall function (if (eq end t) text "")))))

;;;; What can be mentioned in a message

;; The kinds of mentions, and how each is fetched: from Emacs, from Git, or by a tool that
;; looks into the image.  A function that fetches is called in the chat and gets the argument
;; or nil, the mention as it is written, and a function for the result.  What is fetched
;; without an argument says in its name what was meant.

(cl-defstruct (agent-q-attach-kinds-kind (:constructor agent-q-attach-kinds-make) (:copier nil))
  "A kind of mentions.
NAMES says what its argument names: `file', `buffer', `symbol', `package',
`system', `count', (server . SERVER) or nil.  ARGUMENT is `required', `usual' or
`optional', `always' when nothing is mentioned without it, or nil when it takes none.  ABOUT is a short explanation, and FETCH the function
that fetches."
  name names argument about fetch)

(defun agent-q-attach-kinds-written (name argument)
  "Return the mention of the kind called NAME with ARGUMENT as it is written."
  (cond ((null argument) (concat "@" name))
        ((string-match-p "[] \t\n\"`,;})]" argument) (format "@%s:\"%s\"" name argument))
        (t (format "@%s:%s" name argument))))

;;;;; Files and buffers

(defconst agent-q-attach-kinds--largest-file (* 10 1024 1024)
  "Bytes of the largest file that is looked into.")

(defun agent-q-attach-kinds--users-buffer (&optional predicate)
  "Return the buffer that the user last worked in, one that PREDICATE takes.
Signal an error when there is none."
  (or (agent-q-session-user-last-buffer predicate)
      (error "There is no other buffer that you worked in")))

(defun agent-q-attach-kinds--path (name)
  "Return the path of the file called NAME."
  (expand-file-name (substitute-in-file-name name)
                    (or agent-q-session-root default-directory)))

(defun agent-q-attach-kinds--range (name)
  "Return NAME of a file as a list: the path, and the first and last line or nil."
  (let ((path (agent-q-attach-kinds--path name)))
    (if (and (not (file-remote-p path))
             (not (file-exists-p path))
             (string-match "\\`\\(.+\\):\\([0-9]+\\)\\(?:-\\([0-9]+\\)\\)?\\'" name))
        (let ((first (string-to-number (match-string 2 name))))
          (list (agent-q-attach-kinds--path (match-string 1 name))
                first
                (if (match-string 3 name) (string-to-number (match-string 3 name)) first)))
      (list path nil nil))))

(defun agent-q-attach-kinds--file-trouble (path)
  "Return why the file at PATH can't be sent, or nil."
  (cond
   ((file-remote-p path) "files on other machines can't be mentioned; open it and mention its buffer")
   ((file-directory-p path) "this is a folder; mention a file in it")
   ((not (file-exists-p path)) "there is no such file")
   ((not (file-regular-p path)) "this is not a regular file")
   ((not (file-readable-p path)) "this file can't be read")
   ((and (< agent-q-attach-kinds--largest-file (file-attribute-size (file-attributes path)))
         (not (agent-q-attach-kinds--picture-p path))
         (not (find-buffer-visiting path)))
    (format "the file is too large to be sent (%s); the model can read parts of it itself"
            (file-size-human-readable (file-attribute-size (file-attributes path)) nil " " "B")))))

(defun agent-q-attach-kinds-shown (path)
  "Return PATH as the model knows it, relative to the project."
  (if (and agent-q-session-root (file-in-directory-p path agent-q-session-root))
      (file-relative-name path agent-q-session-root)
    (abbreviate-file-name path)))

(defun agent-q-attach-kinds-file (argument name done)
  "Fetch the file ARGUMENT, or the one that the user works in.
NAME is the mention; DONE gets the excerpt or a problem."
  (pcase-let* ((buffer (and (null argument)
                            (agent-q-attach-kinds--users-buffer
                             (lambda (it) (buffer-local-value 'buffer-file-name it)))))
               (`(,path ,first ,last)
                (if buffer (list (buffer-local-value 'buffer-file-name buffer) nil nil)
                  (agent-q-attach-kinds--range argument)))
               (trouble (and (null buffer) (agent-q-attach-kinds--file-trouble path))))
    (funcall done
             (cond (trouble)
                   ((not (agent-q-attach-kinds-private-allowed-p path)) "it is private, and was not sent")
                   ((and (null first) (agent-q-attach-kinds--picture-p path))
                    (agent-q-attach-kinds--picture-excerpt path name))
                   (t (agent-q-attach-kinds--file-excerpt
                       path first last
                       (if argument name
                         (agent-q-attach-kinds-written "file" (agent-q-attach-kinds-shown path)))))))))

(defun agent-q-attach-kinds--file-excerpt (path first last name)
  "Return the excerpt NAME of the file at PATH, or a problem.
With FIRST and LAST, it is of these lines."
  (let* ((buffer (find-buffer-visiting path))
         (shown (agent-q-attach-kinds-shown path))
         (unsaved (and buffer (buffer-modified-p buffer)))
         (where (lambda (lines)
                  (concat "file " shown lines (if unsaved ", with unsaved changes" ""))))
         (visit (lambda () (agent-q-markdown-link-go path first))))
    (cl-flet ((excerpt ()
                (save-excursion
                  (save-restriction
                    (widen)
                    (if (null first)
                        (agent-q-attach-kinds--between (point-min) (point-max) name
                                                       (funcall where "") visit)
                      (goto-char (point-min))
                      (if (< 0 (forward-line (1- first)))
                          (format "the file has only %d lines" (line-number-at-pos (point-max)))
                        (let ((start (point)))
                          (forward-line (max 1 (1+ (- last first))))
                          (agent-q-attach-kinds--between
                           start (point) name
                           (funcall where (if (= first last) (format ", line %d" first)
                                            (format ", lines %d to %d" first last)))
                           visit))))))))
      (if buffer
          (with-current-buffer buffer (excerpt))
        (with-temp-buffer
          (insert-file-contents path)
          (cond ((save-excursion (goto-char (point-min))
                                 (search-forward "\0" (min (point-max) 8000) t))
                 "this is not a text file")
                ((zerop (buffer-size)) "the file is empty")
                (t (excerpt))))))))

(defun agent-q-attach-kinds--between (start end name where visit)
  "Return the text from START to END of this buffer as an excerpt.
NAME, WHERE and VISIT are its own; no more is copied than is sent."
  (agent-q-attach-kinds-excerpt-make name where
                                     (buffer-substring-no-properties
                                      start (min end (+ start agent-q-context-max-size)))
                                     (- end start) visit))

(defun agent-q-attach-kinds-buffer (argument _name done)
  "Fetch the buffer ARGUMENT, or the one that the user works in.
DONE gets the excerpt or a problem."
  (let* ((buffer (if argument (get-buffer argument) (agent-q-attach-kinds--users-buffer)))
         (file (and buffer (buffer-local-value 'buffer-file-name buffer))))
    (funcall
     done
     (cond ((null buffer) "there is no such buffer")
           ((not (agent-q-attach-kinds-private-allowed-p file)) "its file is private, and was not sent")
           (t (with-current-buffer buffer
                (save-restriction
                  (widen)
                  (if (zerop (buffer-size))
                      "the buffer is empty"
                    (agent-q-attach-kinds--between
                     (point-min) (point-max) (agent-q-attach-kinds-written "buffer" (buffer-name))
                     (format "buffer %s%s" (buffer-name)
                             (if file (format " of the file %s%s" (abbreviate-file-name file)
                                              (if (buffer-modified-p) ", with unsaved changes" ""))
                               (format " (%s)" major-mode)))
                     (lambda () (pop-to-buffer buffer)))))))))))

(defun agent-q-attach-kinds--look (look name)
  "Return LOOK, which NAME mentions, as an excerpt, or a problem."
  (if (not (agent-q-attach-kinds-private-allowed-p (agent-q-activity-look-file look)))
      "its file is private, and was not sent"
    (let ((file (agent-q-activity-look-file look))
          (line (agent-q-activity-look-line look))
          (excerpts (agent-q-activity-look-excerpts look)))
      (agent-q-attach-kinds-excerpt-make (format "%s, %s" name (agent-q-activity-look-label look)) (caar excerpts)
                                         (mapconcat #'identity
                                                    (cons (cdar excerpts)
                                                          (mapcar (pcase-lambda (`(,where . ,text))
                                                                    (format "\n%s:\n%s" where text))
                                                                  (cdr excerpts)))
                                                    "\n")
                                         nil (and file (lambda () (agent-q-markdown-link-go file line)))))))

(defun agent-q-attach-kinds-region (argument name done)
  "Fetch the region of the buffer ARGUMENT, or of the user's.
NAME is the mention; DONE gets the excerpt or a problem."
  (let ((buffer (if argument (get-buffer argument) (agent-q-attach-kinds--users-buffer))))
    (funcall done (if (null buffer) "there is no such buffer"
                    (agent-q-attach-kinds--look
                     (with-current-buffer buffer (agent-q-activity-look-region)) name)))))

(defun agent-q-attach-kinds--definition-here (name done)
  "Fetch the definition at the user's point as NAME; DONE gets it or a problem."
  (let ((buffer (agent-q-attach-kinds--users-buffer)))
    (funcall done (agent-q-attach-kinds--look
                   (with-current-buffer buffer
                     (save-excursion
                       (let ((window (get-buffer-window buffer t)))
                         (when window (goto-char (window-point window))))
                       (agent-q-activity-look-definition)))
                   name))))

(defun agent-q-attach-kinds-diff (argument name done)
  "Fetch what has changed in the project since its last commit.
ARGUMENT limits it to a file, or is \"staged\".  NAME is the mention; DONE gets
the excerpt or a problem."
  (let ((staged (equal argument "staged")))
    (agent-q-attach-kinds-git-diff
     (or agent-q-session-root default-directory)
     (list (if staged "--cached" "HEAD"))
     (and argument (not staged) (list (concat ":(literal)" argument)))
     (lambda (text more)
       (funcall done
                (cond ((null text) more)
                      ((string-empty-p text)
                       (if more "only private files have changed, and they are left out"
                         "nothing has changed since the last commit"))
                      (t (agent-q-attach-kinds-excerpt-make
                          name
                          (concat "git diff" (if staged " --cached" " HEAD")
                                  (if more (format ", without %s" (if (cdr more) "private files"
                                                                    "a private file"))
                                    ""))
                          text))))))))

;;;;; From the image

(defconst agent-q-attach-kinds-no-image
  "no Lisp image is connected; M-x sly or M-x slime starts one"
  "What is said where an image is needed.")

(defun agent-q-attach-kinds--by-tool (tool arguments where name done)
  "Fetch the answer of TOOL to ARGUMENTS, called NAME and from WHERE.
DONE gets it or a problem."
  (agent-q-execute-look-up
   agent-q-session-number tool arguments
   (lambda (result)
     (let ((text (string-trim (or (agent-q-tool-result-content result) ""))))
       (funcall done
                (if (agent-q-tool-result-success result)
                    (agent-q-attach-kinds-excerpt-make name where text)
                  ;; What advises the model after the first sentence is none for the user.
                  (replace-regexp-in-string "[ \t\n]+" " " text)))))))

(defun agent-q-attach-kinds--of-image (tool arguments where name done)
  "Do as `agent-q-attach-kinds--by-tool' does if this chat has an image.
TOOL, ARGUMENTS, WHERE, NAME and DONE are as there."
  (if (agent-q-connection-live-p agent-q-session-connection)
      (agent-q-attach-kinds--by-tool tool arguments where name done)
    (funcall done agent-q-attach-kinds-no-image)))

(defun agent-q-attach-kinds--package ()
  "Return the package of the user's REPL in this chat's image, or nil."
  (agent-q-connection-repl-package agent-q-session-connection))

(defun agent-q-attach-kinds--symbol (argument)
  "Return the arguments of a tool about the symbol ARGUMENT."
  (append (list :symbol argument)
          (and (agent-q-connection-live-p agent-q-session-connection)
               (not (string-search ":" argument))
               (agent-q-attach-kinds--package)
               (list :package (agent-q-attach-kinds--package)))))

(defun agent-q-attach-kinds--named (argument name)
  "Signal an error unless ARGUMENT is one; NAME is the mention."
  (unless argument
    (error "Say which one, such as %s:NAME" name)))

(defun agent-q-attach-kinds-symbol (argument name done)
  "Fetch what the image knows of the symbol ARGUMENT.
NAME is the mention; DONE gets the excerpt or a problem."
  (agent-q-attach-kinds--named argument name)
  (agent-q-attach-kinds--of-image "describe_symbol" (agent-q-attach-kinds--symbol argument)
                                  (concat "the image on the symbol " argument) name done))

(defun agent-q-attach-kinds-definition (argument name done)
  "Fetch the source of ARGUMENT, or the definition at the user's point.
NAME is the mention; DONE gets the excerpt or a problem."
  (if argument
      (agent-q-attach-kinds--of-image "find_definition" (agent-q-attach-kinds--symbol argument)
                                      (concat "the source of " argument) name done)
    (agent-q-attach-kinds--definition-here name done)))

(defun agent-q-attach-kinds-package (argument _name done)
  "Fetch what the image knows of the package ARGUMENT, or of the REPL's.
DONE gets the excerpt or a problem."
  (let ((package (or argument
                     (and (agent-q-connection-live-p agent-q-session-connection)
                          (agent-q-attach-kinds--package))
                     "COMMON-LISP-USER")))
    (agent-q-attach-kinds--of-image "package_info" (list :package package)
                                    (concat "the image on the package " package)
                                    (agent-q-attach-kinds-written "package" (downcase package)) done)))

(defun agent-q-attach-kinds-system (argument name done)
  "Fetch what the image knows of the ASDF system ARGUMENT.
NAME is the mention; DONE gets the excerpt or a problem."
  (agent-q-attach-kinds--named argument name)
  (agent-q-attach-kinds--of-image "system_info" (list :system argument)
                                  (concat "the image on the system " argument) name done))

(defun agent-q-attach-kinds-map (_argument name done)
  "Fetch the map of this project's packages in the image.
NAME is the mention; DONE gets the excerpt or a problem."
  (let ((root (or agent-q-session-root default-directory)))
    (if (not (agent-q-connection-live-p agent-q-session-connection))
        (funcall done agent-q-attach-kinds-no-image)
      (agent-q-image-query
       agent-q-session-connection "image-map" (list :root (expand-file-name root))
       (lambda (reply _status _payload)
         (funcall done
                  (pcase reply
                    (`(:outcome :returned :value ,value . ,_)
                     (if (zerop (plist-get value :packages))
                         "the image has no packages of this project"
                       (agent-q-attach-kinds-excerpt-make
                        name "the image on what the packages of this project export"
                        (plist-get value :text))))
                    (_ "the image did not answer"))))
       30))))

(defun agent-q-attach-kinds--process ()
  "Return the process of this chat's image, or nil."
  (and (agent-q-connection-live-p agent-q-session-connection)
       (agent-q-connection-process agent-q-session-connection)))

(defun agent-q-attach-kinds--nothing (what done)
  "Call DONE with the problem that WHAT is so, or that there is no image."
  (funcall done (if (agent-q-attach-kinds--process)
                    (concat what " since agent-q started watching")
                  agent-q-attach-kinds-no-image)))

(defun agent-q-attach-kinds-error (_argument name done)
  "Fetch the last error with its frames.
NAME is the mention; DONE gets the excerpt or a problem."
  (if (agent-q-image-history-last-error (agent-q-attach-kinds--process))
      (agent-q-attach-kinds--by-tool "get_last_error" nil "the last error in the image" name done)
    (agent-q-attach-kinds--nothing "there was no error in the image" done)))

(defun agent-q-attach-kinds-repl (argument name done)
  "Fetch the last ARGUMENT evaluations, 10 when nil.
NAME is the mention; DONE gets the excerpt or a problem."
  (let ((count (if argument (string-to-number argument) 10)))
    (cond ((not (< 0 count 101)) (funcall done "give a number from 1 to 100"))
          ((agent-q-image-history-evaluations (agent-q-attach-kinds--process))
           (agent-q-attach-kinds--by-tool "get_repl_history" (list :limit count)
                                          "what was evaluated last in the image" name done))
          (t (agent-q-attach-kinds--nothing "nothing was evaluated" done)))))

(defun agent-q-attach-kinds-notes (_argument name done)
  "Fetch what the compiler said last.
NAME is the mention; DONE gets the excerpt or a problem."
  (if (agent-q-image-history-last-compilation (agent-q-attach-kinds--process))
      (agent-q-attach-kinds--by-tool "get_compilation_notes" nil
                                     "what the compiler said last" name done)
    (agent-q-attach-kinds--nothing "nothing was compiled" done)))

;;;;; The table

(defconst agent-q-attach-kinds
  (mapcar (pcase-lambda (`(,name ,names ,argument ,about))
            (agent-q-attach-kinds-make
             :name name :names names :argument argument :about about
             :fetch (intern (concat "agent-q-attach-kinds-" name))))
          '(("file" file usual "a file of the project, or lines: @file:a.lisp:3-9")
            ("buffer" buffer usual "a buffer, or the one you work in")
            ("region" buffer optional "the region of the buffer you work in")
            ("definition" symbol optional "the source of a name, or the definition at point")
            ("symbol" symbol required "what the image knows of a symbol")
            ("error" nil nil "the last error, with its frames")
            ("repl" count optional "what was evaluated last")
            ("diff" file optional "changes since the last commit, of a file or staged")
            ("notes" nil nil "what the compiler said last")
            ("package" package usual "a package of the image")
            ("system" system required "an ASDF system")
            ("map" nil nil "what the project's packages export")))
  "The kinds of mentions, in the order in which they are offered.")

(defun agent-q-attach-kinds-kind-called (name)
  "Return the kind of mentions called NAME, or nil."
  (seq-find (lambda (kind) (equal name (agent-q-attach-kinds-kind-name kind)))
            agent-q-attach-kinds))

(provide 'agent-q-attach-kinds)
;;; agent-q-attach-kinds.el ends here
