;;; agent-q-drift.el --- What the image and the files don't have alike  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Definitions that only a Lisp image has, or only the files of a project, or that differ: as a
;; list with keys to even them out, and in a chat, under a turn that left something only in the
;; image and in the header.  The image compares, and the core finds the files.

;;; Code:

(require 'agent-q-changes)
(require 'agent-q-chat-view)
(require 'agent-q-connection)
(require 'agent-q-definitions)
(require 'agent-q-execute)
(require 'agent-q-image)
(require 'agent-q-image-source)
(require 'agent-q-names)
(require 'agent-q-project)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'diff-mode)
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Looking

(defun agent-q-drift--query (connection operation arguments function &optional seconds)
  "Call OPERATION with ARGUMENTS behind CONNECTION, for at most SECONDS.
FUNCTION gets its value, or nil and why there is none."
  (agent-q-image-query
   connection operation arguments
   (lambda (reply status _payload)
     (pcase reply
       (`(:outcome :returned :value ,value . ,_) (funcall function value nil))
       (`(:outcome ,_ . ,more) (funcall function nil (plist-get more :message)))
       (_ (funcall function nil (format "The image did not answer (%s)" status)))))
   seconds))

(defun agent-q-drift--look (chat connection function)
  "Compare the image behind CONNECTION with the project of CHAT, a buffer or nil.
Without a chat, it is the current buffer's project.  FUNCTION gets what the
image found, or nil and why there is nothing."
  (let ((ended (lambda (result)
                 (if (agent-q-tool-result-success result)
                     (agent-q-drift--query connection "drift-rows" nil function)
                   (funcall function nil (agent-q-tool-result-content result))))))
    (if chat
        (agent-q-execute-look-up (buffer-local-value 'agent-q-session-number chat)
                                 "image_drift" nil ended)
      (agent-q-execute-tool-calls '((:name "image_drift" :arguments nil))
                                  (lambda (results) (funcall ended (car results)))))))

;;;; The list

(defvar-local agent-q-drift--chat nil
  "The chat from which the list was asked for, or nil.")

(defvar-local agent-q-drift--rows nil
  "What the image found, property lists.")

(defvar-local agent-q-drift--said ""
  "How much was compared, for the mode line.")

(defvar agent-q-drift-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-drift-visit)
    (define-key map "=" #'agent-q-drift-compare)
    (define-key map "p" #'agent-q-drift-put)
    (define-key map "l" #'agent-q-drift-load)
    (define-key map "f" #'agent-q-drift-forget)
    (agent-q-names-define-keys map)
    map)
  "Keymap of `agent-q-drift-mode'.")

(define-derived-mode agent-q-drift-mode tabulated-list-mode "agent-q drift"
  "Major mode of the list of differences between a Lisp image and the files.

\\<agent-q-drift-mode-map>\\[agent-q-drift-visit] goes to the definition in its file, \
\\[agent-q-drift-compare] compares both texts, \\[agent-q-drift-put] puts
the image's into the file, \\[agent-q-drift-load] loads the file's, and \
\\[agent-q-drift-forget] removes the definition
from the image.  \\[agent-q-names-find-definition] goes where the image says that it is defined.

\\{agent-q-drift-mode-map}"
  (setq mode-line-process '(:eval (list agent-q-drift--said agent-q-text-list-hint))
        revert-buffer-function #'agent-q-drift--refresh))

;;;###autoload
(defun agent-q-drift ()
  "List what the Lisp image and the files of this project don't have alike.
From a chat, it is about the chat's image and project."
  (interactive)
  (let* ((chat (and agent-q-session-number (current-buffer)))
         (connection (or (and (agent-q-connection-live-p agent-q-session-connection)
                              agent-q-session-connection)
                         (agent-q-connection-default-connection)))
         (directory (or (agent-q-project-directory) default-directory)))
    (unless connection
      (user-error "No Lisp is connected"))
    (pop-to-buffer (get-buffer-create "*agent-q drift*"))
    (unless (derived-mode-p 'agent-q-drift-mode)
      (agent-q-drift-mode))
    (setq agent-q-session-connection connection
          agent-q-drift--chat chat
          default-directory directory)
    (agent-q-drift--refresh)))

(defun agent-q-drift--refresh (&rest _)
  "Compare again, and show the list when that is done."
  (let ((buffer (current-buffer)))
    (when (and agent-q-drift--chat (not (buffer-live-p agent-q-drift--chat)))
      (setq agent-q-drift--chat nil))
    (setq agent-q-drift--said ", comparing...")
    (force-mode-line-update)
    (agent-q-drift--look
     agent-q-drift--chat agent-q-session-connection
     (lambda (value problem)
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           (if (null value)
               (progn (setq agent-q-drift--said "")
                      (message "%s" (agent-q-text-visible-line (or problem "Nothing came") 200)))
             (agent-q-drift--show value))))))))

(defun agent-q-drift--show (value)
  "Show VALUE, what the image found, in this buffer."
  (setq agent-q-drift--rows (plist-get value :rows)
        agent-q-drift--said (let ((files (plist-get value :files)))
                              (format ": %d in %d file%s" (apply #'+ (plist-get value :counts))
                                      files (if (eql files 1) "" "s"))))
  (agent-q-text-list-setup
   '((10 "Definition" 23 t :most 60) (5 "Kind" 12 t) (9 "State" 13 t) (7 "Place" 20 t :most 50) (4 "Why" 0 nil))
   (lambda () (mapcar #'agent-q-drift--row agent-q-drift--rows))
   "The image has what the files have.  \\<agent-q-drift-mode-map>\\[revert-buffer] compares again.")
  (agent-q-text-list-print)
  (force-mode-line-update)
  (when agent-q-drift--chat
    (agent-q-drift--mark agent-q-drift--chat agent-q-drift--rows)))

(defconst agent-q-drift--states
  '((:image . "only in image") (:differs . "differs") (:file . "only in file")
    (:unknown . "unknown") (:not-loaded . "not loaded"))
  "The states of rows, in words.")

(defun agent-q-drift--row (row)
  "Return the entry of the list for ROW."
  (list (plist-get row :id)
        (vector (agent-q-names-cell (agent-q-text-visible-line (plist-get row :name) 200))
                (plist-get row :kind)
                (alist-get (plist-get row :state) agent-q-drift--states)
                (agent-q-names-places-cell
                 (agent-q-text-visible-line (agent-q-drift--place row) 200))
                (agent-q-text-visible-line (or (plist-get row :detail) "") 200))))

(defun agent-q-drift--place (row)
  "Return the place of ROW in a file, as text."
  (concat (if (equal (plist-get row :kind) "file") "" (or (plist-get row :path) ""))
          (if (plist-get row :line) (format ":%d" (plist-get row :line)) "")
          (if (plist-get row :unsaved) " (not saved)" "")))

;;;; What can be done about a row

(defun agent-q-drift--at-point ()
  "Return the row at point."
  (or (cl-find (tabulated-list-get-id) agent-q-drift--rows
               :key (lambda (row) (plist-get row :id)))
      (user-error "No definition here")))

(defun agent-q-drift--file (row)
  "Return the file of ROW on this machine, or nil."
  (and-let* ((name (plist-get row :file)))
    (agent-q-image-source-file-here agent-q-session-connection name)))

(defun agent-q-drift--buffer (row)
  "Return a buffer with the file of ROW, with point on its definition.
An error if it has none."
  (let ((file (agent-q-drift--file row)))
    (unless (and file (file-exists-p file))
      (user-error "No file has %s" (plist-get row :name)))
    (with-current-buffer (find-file-noselect file)
      (widen)
      (goto-char (point-min))
      (forward-line (1- (or (plist-get row :line) 1)))
      (skip-chars-forward " \t")
      (when (and (plist-get row :line) (looking-at-p "#[-+]"))
        (search-forward "(" (line-end-position 3) t)
        (backward-char))
      (current-buffer))))

(defun agent-q-drift-visit ()
  "Go to the definition of this row in its file."
  (interactive nil agent-q-drift-mode)
  (pop-to-buffer (agent-q-drift--buffer (agent-q-drift--at-point))))

(defun agent-q-drift--with-texts (row function)
  "Call FUNCTION with what the image knows of the texts of ROW, in this buffer."
  (let ((buffer (current-buffer)))
    (agent-q-drift--query
     agent-q-session-connection "drift-text" (list :id (plist-get row :id))
     (lambda (value problem)
       (if (null value)
           (message "%s" problem)
         (when (buffer-live-p buffer)
           (with-current-buffer buffer
             (funcall function value))))))))

(defun agent-q-drift-compare ()
  "Show the image's text of this row and the file's as a diff."
  (interactive nil agent-q-drift-mode)
  (let ((row (agent-q-drift--at-point)))
    (agent-q-drift--with-texts
     row
     (lambda (texts)
       (let ((image (plist-get texts :image))
             (written (plist-get texts :written)))
         (cond ((not (or image written))
                (message "Neither text is known here"))
               (t (agent-q-drift--diff row (or written "") (or image "")
                                       (and written (null image)
                                            "The image's text isn't known.\n")))))))))

(defun agent-q-drift--diff (row written image note)
  "Show the diff from WRITTEN, the text of ROW in its file, to IMAGE, after NOTE."
  (with-current-buffer (get-buffer-create "*agent-q drift diff*")
    (let ((inhibit-read-only t))
      (erase-buffer)
      (insert (or note ""))
      (insert (format "--- %s\n+++ the image\n"
                      (if (string-empty-p written) "no file" (agent-q-drift--place row))))
      (pcase-dolist (`(,_ ,_ ,header ,body . ,_)
                     (agent-q-core-diff-hunks (concat written "\n") (concat image "\n") 3))
        (insert (string-trim-right header) "\n" body)))
    (diff-mode)
    (setq buffer-read-only t)
    (goto-char (point-min))
    (pop-to-buffer (current-buffer))))

(defun agent-q-drift-put ()
  "Put the image's text of this row into its file, or into one that you choose.
The file's buffer isn't saved, so that you can look at it, and undo it."
  (interactive nil agent-q-drift-mode)
  (let ((row (agent-q-drift--at-point)))
    (agent-q-drift--with-texts
     row
     (lambda (texts)
       (let ((text (plist-get texts :image)))
         (cond ((null text)
                (message "The text of %s isn't known in the image" (plist-get row :name)))
               ((plist-get row :line) (agent-q-drift--replace row text))
               (t (agent-q-drift--insert row text (plist-get texts :package)))))))))

(defun agent-q-drift--replace (row text)
  "Replace the definition of ROW in its file by TEXT."
  (with-current-buffer (agent-q-drift--buffer row)
    (let ((start (point)))
      (delete-region start (scan-sexps start 1))
      (insert text)
      (goto-char start))
    (agent-q-drift--written)))

(defun agent-q-drift--insert (row text package)
  "Insert TEXT of ROW, of PACKAGE, at the end of a file that the user chooses."
  (let* ((own (agent-q-drift--file row))
         (file (read-file-name (format "Put %s at the end of file: " (plist-get row :name))
                               nil own nil (and own (file-name-nondirectory own)))))
    (when (file-directory-p file)
      (user-error "That is a directory"))
    (with-current-buffer (find-file-noselect file)
      (widen)
      (goto-char (point-max))
      (let ((there (save-excursion
                     (and (re-search-backward "^(in-package[ \t\n]+[#:\"']*\\([^ )\"]+\\)" nil t)
                          (match-string-no-properties 1)))))
        (when (and package there (not (equal (downcase package) (downcase there))))
          (user-error "%s is in the package %s there, not in %s" file there package)))
      (skip-chars-backward " \t\n")
      (delete-region (point) (point-max))
      (unless (bobp)
        (insert "\n\n"))
      (save-excursion
        (insert text "\n"))
      (agent-q-drift--written))))

(defun agent-q-drift--written ()
  "Show the current buffer, which was changed, with point on the definition."
  (pop-to-buffer (current-buffer))
  (message "%s" (substitute-command-keys "Not saved yet: \\[save-buffer] saves it, \\[undo] undoes it")))

(defun agent-q-drift-load ()
  "Load what the file of this row has: the definition, the file or the system."
  (interactive nil agent-q-drift-mode)
  (let* ((row (agent-q-drift--at-point))
         (kind (plist-get row :kind)))
    (unless (plist-get row :file)
      (user-error "No file has %s" (plist-get row :name)))
    (cond ((equal kind "system")
           (agent-q-drift--load row "load-system"
                                `(:system ,(plist-get row :name)
                                  :systems ((:name ,(plist-get row :name) :file ,(plist-get row :file)
                                                   :place ,(plist-get row :path))))))
          ((or (equal kind "file") (null (plist-get row :line)))
           (agent-q-drift--load row "compile-file" (list :file (plist-get row :file))))
          (t (agent-q-drift--with-texts
              row
              (lambda (texts)
                (agent-q-drift--load row "compile-form"
                                     (agent-q-drift--form row (plist-get texts :package)))))))))

(defun agent-q-drift--form (row package)
  "Return the arguments that compile the definition of ROW, of PACKAGE."
  (with-current-buffer (agent-q-drift--buffer row)
    (let ((before (if package (format "(in-package %S)\n" package) "")))
      (list :form (concat before (buffer-substring-no-properties (point) (scan-sexps (point) 1)))
            :start (length before)
            :position (point) :line (line-number-at-pos)
            :file (plist-get row :file) :buffer (buffer-name) :shown (plist-get row :path)))))

(defconst agent-q-drift--seconds-to-load 600
  "For how many seconds a load may run.")

(defun agent-q-drift--load (row operation arguments)
  "Load ROW by OPERATION with ARGUMENTS, then compare again."
  (let ((buffer (current-buffer)))
    (message "Loading %s..." (plist-get row :name))
    (agent-q-drift--query
     agent-q-session-connection operation arguments
     (lambda (value problem)
       (message "%s" (agent-q-text-visible-line
                      (cond ((null value) (or problem "It was not loaded"))
                            ((plist-get value :failed)
                             (format "The compiler failed on %s" (plist-get row :name)))
                            (t (format "Loaded %s" (plist-get row :name))))
                      400))
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           (agent-q-drift--refresh))))
     agent-q-drift--seconds-to-load)))

(defun agent-q-drift-forget ()
  "Remove the definition of this row from the image, after a question.
`agent-q-changes-in-image' lists it, and can bring it back."
  (interactive nil agent-q-drift-mode)
  (let ((row (agent-q-drift--at-point))
        (buffer (current-buffer))
        (chat (and (buffer-live-p agent-q-drift--chat)
                   (agent-q-image-chat-name agent-q-drift--chat))))
    (unless (memq (plist-get row :state) '(:image :differs :unknown))
      (user-error "The image doesn't have %s" (plist-get row :name)))
    (when (y-or-n-p (format "Remove %s from the image? " (plist-get row :name)))
      (agent-q-drift--query
       agent-q-session-connection "drift-forget" (list :id (plist-get row :id) :chat chat)
       (lambda (value problem)
         (message "%s" (if value (format "Removed %s" (plist-get value :forgotten)) problem))
         (when (buffer-live-p buffer)
           (with-current-buffer buffer
             (agent-q-drift--refresh))))))))

;;;; In a chat

;; A turn that left something only in the image gets a line, which loses what is in a file
;; since, or was undone; the header counts what the chat has left there.

(cl-defstruct (agent-q-drift-line (:include agent-q-render-item)
                                  (:constructor agent-q-drift--line-make)
                                  (:copier nil))
  "The line under a turn about the definitions NAMES, which only the image has."
  names)

(defvar-local agent-q-drift--lines nil
  "The lines of this chat, latest first.")

(defun agent-q-drift--line-draw (line)
  "Return the text of LINE."
  (let* ((names (mapcar (lambda (name) (agent-q-text-visible-line name 100))
                        (agent-q-drift-line-names line)))
         (more (- (length names) 6)))
    (if (null names)
        (propertize "Nothing is left only in the image." 'face 'agent-q-dim)
      (concat (propertize (format "Only in the image: %s%s. "
                                  (string-join (seq-take names 6) ", ")
                                  (if (> more 0) (format " and %d more" more) ""))
                          'face 'agent-q-dim)
              (make-text-button "[Drift]" nil 'follow-link t
                                'action (lambda (_button) (agent-q-drift)))))))

(defun agent-q-drift--in-diff-p (row diff)
  "Whether the file of ROW is one of those in DIFF."
  (and (plist-get row :path)
       (string-search (format "--- a/%s\n" (plist-get row :path)) diff)))

(defun agent-q-drift--line-of-turn-p (row turn diff)
  "Whether ROW is only in the image because of TURN, which changed DIFF in files."
  (and (eq :image (plist-get row :state))
       (or (equal turn (plist-get row :turn))
           (agent-q-drift--in-diff-p row diff))))

(defun agent-q-drift--behind (rows)
  "Return those of ROWS that are in a file and not so in the image.
They are lists of name, file and line."
  (mapcar (lambda (row)
            (list (downcase (agent-q-definitions-bare (plist-get row :name)))
                  (plist-get row :path) (plist-get row :line)))
          (seq-filter (lambda (row)
                        (and (memq (plist-get row :state) '(:differs :file)) (plist-get row :line)))
                      rows)))

(defun agent-q-drift--chat-turns ()
  "Return the beginning of the names that this chat has in journals."
  (format "%s/%d/" agent-q-changes-emacs agent-q-session-number))

(defun agent-q-drift--mark (chat rows)
  "Show in CHAT what of ROWS it has left only in the image."
  (when (buffer-live-p chat)
    (with-current-buffer chat
      (agent-q-changes-lines-caught-up (agent-q-drift--behind rows))
      (let* ((only (seq-filter (lambda (row) (eq :image (plist-get row :state))) rows))
             (names (mapcar (lambda (row) (plist-get row :name)) only))
             (turns (agent-q-drift--chat-turns))
             (own nil))
        (dolist (row only)
          (when (string-prefix-p turns (or (plist-get row :turn) ""))
            (push (plist-get row :name) own)))
        (dolist (line agent-q-drift--lines)
          (agent-q-drift--line-keep line names)
          (setq own (append (agent-q-drift-line-names line) own)))
        (setq agent-q-chat-view-header-drift (length (seq-uniq own)))
        (agent-q-chat-view-header-update)))))

(defun agent-q-drift--line-keep (line names)
  "Leave in LINE only those of NAMES."
  (let ((left (seq-intersection (agent-q-drift-line-names line) names)))
    (unless (equal left (agent-q-drift-line-names line))
      (setf (agent-q-drift-line-names line) left)
      ;; It may have gone with a part of the log.
      (when (eq line (agent-q-render-item-at (agent-q-render-item-start line)))
        (agent-q-render-update-item line)))))

(defun agent-q-drift-tell (turn diff place)
  "Show under TURN, which changed DIFF in files, what it left only in the image.
It ended at PLACE, a marker, or at the end of the log."
  (when (and agent-q-session-number (agent-q-connection-live-p agent-q-session-connection))
    ;; A character before the end: what is added there would take the end along.
    (let ((place (copy-marker (or place (1- agent-q-render-end))))
          (chat (current-buffer)))
      (agent-q-drift--look
       chat agent-q-session-connection
       (lambda (value _problem)
         (when (and value (buffer-live-p chat))
           (with-current-buffer chat
             (when agent-q-session-number
               (agent-q-drift--add turn diff (plist-get value :rows) place))
             (set-marker place nil))))))))

(defun agent-q-drift--add (turn diff rows place)
  "Add the line for TURN, which changed DIFF, at PLACE, a marker, by ROWS.
What of its files is not in the image is told in the line of what it changed."
  (agent-q-changes-line-tell-behind
   turn (agent-q-drift--behind (seq-filter (lambda (row) (agent-q-drift--in-diff-p row diff)) rows)))
  (when-let* ((own (seq-filter (lambda (row) (agent-q-drift--line-of-turn-p row turn diff)) rows)))
    (let* ((line (agent-q-drift--line-make
                  :draw #'agent-q-drift--line-draw
                  :names (mapcar (lambda (row) (plist-get row :name)) own)))
           (more (< (1+ place) agent-q-render-end))
           (changed (and more (agent-q-render-item-at (1+ place)))))
      (push line agent-q-drift--lines)
      (cond ((agent-q-changes-line-p changed) (agent-q-render-add-item line changed))
            (more (agent-q-render-above (1+ place) (lambda () (agent-q-render-add-item line))))
            (t (agent-q-render-add-item line)))))
  (agent-q-drift--mark (current-buffer) rows))

(defvar-local agent-q-drift--timer nil
  "The timer that will look at the image of this chat again, or nil.")

(defconst agent-q-drift--catching-up
  '("compile-file" "compile-form" "load-system" "run-tests" "eval-form")
  "The operations after which the image may have what it had not.")

(defun agent-q-drift--call-ended (call &rest _)
  "Look again in the chats about the image of CALL, where their lines need it."
  (let* ((operation (agent-q-connection-call-operation call))
         (undoes (member operation '("journal-restore" "journal-undo" "journal-redo")))
         (compiles (member operation agent-q-drift--catching-up)))
    (when (or undoes compiles)
      (dolist (chat (agent-q-session-chats))
        (with-current-buffer chat
          (when (and agent-q-session-number
                     (or (and undoes agent-q-drift--lines)
                         (and compiles (agent-q-changes-lines-behind-p)))
                     (equal agent-q-session-connection (agent-q-connection-call-connection call)))
            (agent-q-drift--look-soon)))))))

(defun agent-q-drift--look-soon ()
  "Look again for this chat in a moment, when all at hand is over."
  (when agent-q-drift--timer
    (cancel-timer agent-q-drift--timer))
  (setq agent-q-drift--timer
        (run-at-time 0.3 nil #'agent-q-drift--look-again (current-buffer))))

(defun agent-q-drift--look-again (chat)
  "Show in the lines of CHAT, a buffer, what the image has by now."
  (when (buffer-live-p chat)
    (with-current-buffer chat
      (setq agent-q-drift--timer nil)
      (when (and agent-q-session-number (agent-q-connection-live-p agent-q-session-connection))
        (agent-q-drift--look chat agent-q-session-connection
                             (lambda (value _problem)
                               (when value
                                 (agent-q-drift--mark chat (plist-get value :rows)))))))))

(add-hook 'agent-q-connection-call-ended-functions #'agent-q-drift--call-ended)

(provide 'agent-q-drift)
;;; agent-q-drift.el ends here
